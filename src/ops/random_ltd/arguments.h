// Arguments of the token ops, their validation, and their conversion for the kernels.
#pragma once

#include <array>

#include "ATen/MemoryOverlap.h"
#include "kernels/random_ltd/tokens.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;

inline void check_ids(const char* where, const Tensor& ids, std::int64_t dims) {
  if ((ids.scalar_type() != at::kInt && ids.scalar_type() != at::kLong) || ids.dim() != dims)
    fail_argument(where, "the token ids have the wrong shape or dtype", words(ids),
                  c10::str("int32 or int64 with ", dims, " dimensions"));
}

/// Checks dtypes and dimensions. Also works with symbolic shapes.
inline void check_kinds(const char* where, const Tensor& whole, const Tensor& ids) {
  check_ids(where, ids, 2);
  if (whole.dim() != 3)
    fail_argument(where, "the activations have the wrong number of dimensions", words(whole),
                  "[batch, tokens, channels] or [tokens, batch, channels]");
}

/// Checks activations and ids. Activations are [batch, tokens, channels] with `batch_first`, and
/// [tokens, batch, channels] otherwise. Ids are [batch, count].
inline void check_tokens(const char* where, const Tensor& whole, const Tensor& ids,
                         bool batch_first) {
  check_kinds(where, whole, ids);
  const std::int64_t batch = whole.size(batch_first ? 0 : 1);
  if (ids.size(0) != batch)
    fail_argument(
        where, "token ids and activations differ in batch size", words(ids),
        c10::str("[", batch, ", count]"),
        batch_first ? "" : "activations are [tokens, batch, channels] without batch_first");
}

inline void check_part(const char* where, const Tensor& part, const Tensor& whole,
                       const Tensor& ids, bool batch_first) {
  if (part.scalar_type() != whole.scalar_type() || part.dim() != 3 ||
      part.size(batch_first ? 0 : 1) != ids.size(0) ||
      part.size(batch_first ? 1 : 0) != ids.size(1) || part.size(2) != whole.size(2) ||
      part.device() != whole.device())
    fail_argument(where, "the layer's activations have the wrong shape, dtype or device",
                  words(part),
                  c10::str(words(whole), " with ", ids.size(1), " tokens for each batch entry"));
}

/// Returns whether the channels of each token are contiguous.
inline bool has_rows(const Tensor& tensor) { return tensor.stride(2) == 1 || tensor.size(2) <= 1; }

/// Returns the kernel arguments. has_rows() must be true for both tensors, and `ids` must be
/// contiguous.
inline TokenCopy token_copy(const Tensor& whole, const Tensor& part, const Tensor& ids,
                            bool batch_first) {
  const auto size = static_cast<std::int64_t>(whole.element_size());
  const int batch = batch_first ? 0 : 1;
  const auto at = [](const Tensor& tensor) {
    return static_cast<char*>(const_cast<void*>(tensor.const_data_ptr()));
  };
  return {.whole = at(whole),
          .whole_batch = whole.stride(batch) * size,
          .whole_token = whole.stride(1 - batch) * size,
          .part = at(part),
          .part_batch = part.stride(batch) * size,
          .part_token = part.stride(1 - batch) * size,
          .ids = ids.const_data_ptr(),
          .count = ids.size(1),
          .tokens = whole.size(1 - batch),
          .bytes = whole.size(2) * size};
}

/// Calls copy(TokenCopy), which must copy tokens from `whole` to `part`. Returns `part`.
template <typename Copy>
Tensor gather_into(const Tensor& whole, const Tensor& ids, const Tensor& part, bool batch_first,
                   const Copy& copy) {
  const Tensor rows = has_rows(whole) ? whole : whole.contiguous();
  const Tensor numbers = ids.contiguous();
  copy(token_copy(rows, part, numbers, batch_first));
  return part;
}

/// Calls copy(TokenCopy), which must copy the tokens from `part` to `whole`. `whole` is not changed
/// if copy() rejects its arguments.
template <typename Copy>
void scatter_into(const char* where, const Tensor& whole, const Tensor& part, const Tensor& ids,
                  bool batch_first, const Copy& copy) {
  check_tokens(where, whole, ids, batch_first);
  check_part(where, part, whole, ids, batch_first);
  at::assert_no_internal_overlap(whole);
  const Tensor rows = part.is_alias_of(whole) ? part.clone(at::MemoryFormat::Contiguous)
                      : has_rows(part)        ? part
                                              : part.contiguous();
  const Tensor numbers = ids.contiguous();
  const Tensor target = has_rows(whole) ? whole : whole.contiguous();
  target.mutable_data_ptr();  // materializes a copy-on-write tensor
  copy(token_copy(target, rows, numbers, batch_first));
  if (target.is_same(whole))
    changed_memory(whole);
  else
    whole.copy_(target);
}

}  // namespace anyaccel::ops
