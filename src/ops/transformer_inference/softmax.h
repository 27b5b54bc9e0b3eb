// Masking of attention scores and the masked softmax, composed of torch operations.
#pragma once

#include "ops/transformer_inference/layers.h"

namespace anyaccel::ops {

struct Hiding {
  bool triangular;  ///< queries attend only to keys up to their own position
  /// Queries attend only to the last `window_size` keys up to and including the key at their own
  /// position.
  bool local_attention;
  std::int64_t window_size;
};

/// Returns whether the tensor is present. For an absent tensor, DeepSpeed's Python code passes a
/// single element.
inline bool is_there(const OptionalTensor& arguments) {
  return arguments && arguments->defined() && arguments->dim() > 1;
}

/// Returns the sum of all terms that are added to scores [batch, heads, queries, keys]: alibi, the
/// mask, and -inf for masked keys. Returns an undefined tensor if there are none. The queries are
/// at the positions of the last keys.
///
/// A mask is [batch, keys], or 4-dimensional and broadcast; its last dimension may be longer than
/// the keys. It is added to the scores, or if it is bool, true means visible. alibi is [batch *
/// heads of all ranks, 1, keys], and `first_head` is the first head of this rank. Masks and alibi
/// with one dimension are treated as absent.
Tensor score_bias(const char* where, const Tensor& like, at::SymIntArrayRef scores,
                  const OptionalTensor& mask, const OptionalTensor& alibi, const Hiding& hiding,
                  std::int64_t first_head, std::int64_t ranks);

/// Returns softmax(scores * scale + bias). If all keys are masked for a query, its result is zero.
Tensor masked_softmax(const Tensor& scores, const OptionalTensor& mask, const OptionalTensor& alibi,
                      const Hiding& hiding, double scale, std::int64_t first_head,
                      std::int64_t ranks);

}  // namespace anyaccel::ops
