// Attention of an injected layer over the workspace's keys and values, and functions that copy
// heads.
#pragma once

#include <tuple>
#include <vector>

#include "ops/transformer_inference/softmax.h"

namespace anyaccel::ops {

struct Rotation {
  std::int64_t dims;  ///< rotated dimensions of a head; none if not positive
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

/// Returns the context [batch, tokens, heads * dim], and this layer's keys and values so far as
/// views of the workspace.
std::tuple<Tensor, Tensor, Tensor> softmax_context(const ContextArguments& arguments);
std::tuple<Tensor, Tensor, Tensor> softmax_context_shapes(const ContextArguments& arguments);

/// Rotates query and key [batch, tokens, heads * dim] as tokens at positions `offset` and later.
std::tuple<Tensor, Tensor> rotated(const Tensor& query, const Tensor& key, const Rotation& rotation,
                                   std::int64_t offset, std::int64_t heads);

/// Repeats each batch entry `repeats` times in all layers. Returns views of each layer's keys and
/// values, alternating.
std::vector<Tensor> repeat_cache(std::int64_t source_batch, std::int64_t repeats,
                                 at::ScalarType dtype);

}  // namespace anyaccel::ops
