// Masking of attention scores, and the softmax over the result, with torch's operations.
#pragma once

#include "ops/transformer_inference/layers.h"

namespace anyaccel::ops {

struct Hiding {
  bool triangular;       ///< a query sees keys up to its own position
  bool local_attention;  ///< a query sees only the last `window_size` keys, including its own
  std::int64_t window_size;
};

/// Whether the tensor is present. DeepSpeed's Python passes a single element for none.
inline bool is_there(const OptionalTensor& arguments) {
  return arguments && arguments->defined() && arguments->dim() > 1;
}

/// Returns the sum that is added to scores [batch, heads, queries, keys]: alibi, the mask, and -inf
/// for hidden keys; undefined if there is none. The queries are the last of the keys. A mask is
/// [batch, keys] or 4-dimensional and broadcast, and its last dimension may be longer than the
/// keys. It is added, or if bool, true means visible. alibi is [batch * heads of all ranks, 1,
/// keys]; `first_head` is this rank's first head. Masks and alibi with one dimension count as
/// absent.
Tensor score_bias(const char* where, const Tensor& like, at::SymIntArrayRef scores,
                  const OptionalTensor& mask, const OptionalTensor& alibi, const Hiding& hiding,
                  std::int64_t first_head, std::int64_t ranks);

/// softmax(scores * scale + bias). A query that sees no keys gives zeros.
Tensor masked_softmax(const Tensor& scores, const OptionalTensor& mask, const OptionalTensor& alibi,
                      const Hiding& hiding, double scale, std::int64_t first_head,
                      std::int64_t ranks);

}  // namespace anyaccel::ops
