// What hides scores of attention, and the softmax over the rest, in torch's operations.
#pragma once

#include "ops/transformer_inference/layers.h"

namespace anyaccel::ops {

struct Hiding {
  bool triangular;       ///< a query sees keys up to its own place
  bool local_attention;  ///< and only the last `window_size` of them, itself among them
  std::int64_t window_size;
};

/// Whether it is there: DeepSpeed's Python gives one element for none.
inline bool is_there(const OptionalTensor& arguments) {
  return arguments && arguments->defined() && arguments->dim() > 1;
}

/// What is added to scores [batch, heads, queries, keys]: alibi, mask, and -inf where something is
/// hidden; undefined where nothing is. Queries are the last of the keys. Masks are [batch, keys],
/// or 4-dimensional and broadcast, their last dimension may be longer than the keys; added, or
/// bool: true for what is seen. alibi is [batch * heads of all ranks, 1, keys], `first_head` the
/// first of this rank. Masks and alibi of one dimension are none.
Tensor score_bias(const char* where, const Tensor& like, at::SymIntArrayRef scores,
                  const OptionalTensor& mask, const OptionalTensor& alibi, const Hiding& hiding,
                  std::int64_t first_head, std::int64_t ranks);

/// softmax(scores * scale + bias); a query that sees nothing gives zeros.
Tensor masked_softmax(const Tensor& scores, const OptionalTensor& mask, const OptionalTensor& alibi,
                      const Hiding& hiding, double scale, std::int64_t first_head,
                      std::int64_t ranks);

}  // namespace anyaccel::ops
