// Attention for an injected layer over the keys and values in the workspace, and functions that
// copy heads.
#pragma once

#include <tuple>
#include <vector>

#include "ops/transformer_inference/softmax.h"

namespace anyaccel::ops {

struct Rotation {
  std::int64_t dims;  ///< number of rotated dimensions per head; nothing is rotated if not positive
  bool half, every_two;
  double theta;
};

struct ContextArguments {
  const Tensor& query_key_value;  ///< [batch, tokens, (heads + 2 * kv_heads) * dim]
  const OptionalTensor& attn_mask;
  Rotation rotation;
  std::int64_t heads, num_kv;
  double norm_factor;
  Hiding hiding;
  bool no_masking;
  std::int64_t layer_id, num_layers;
  const OptionalTensor& alibi;
};

/// Returns the context [batch, tokens, heads * dim], and all keys and values of this layer so far,
/// as views of the workspace.
std::tuple<Tensor, Tensor, Tensor> softmax_context(const ContextArguments& arguments);
std::tuple<Tensor, Tensor, Tensor> softmax_context_shapes(const ContextArguments& arguments);

/// Rotates query and key [batch, tokens, heads * dim]. The first token is at position `offset`.
std::tuple<Tensor, Tensor> rotated(const Tensor& query, const Tensor& key, const Rotation& rotation,
                                   std::int64_t offset, std::int64_t heads);

/// Repeats each batch entry `repeats` times in all layers. Returns views of the keys and the values
/// of each layer, alternating.
std::vector<Tensor> repeat_cache(std::int64_t source_batch, std::int64_t repeats,
                                 at::ScalarType dtype);

}  // namespace anyaccel::ops
