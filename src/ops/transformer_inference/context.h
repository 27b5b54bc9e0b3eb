// Attention of an injected layer with the workspace's keys and values, and what moves heads about.
#pragma once

#include <tuple>
#include <vector>

#include "ops/transformer_inference/softmax.h"

namespace anyaccel::ops {

struct Rotation {
  std::int64_t dims;  ///< rotated ones of a head; none where not positive
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

/// The context [batch, tokens, heads * dim], and this layer's keys and values so far, as views of
/// the workspace.
std::tuple<Tensor, Tensor, Tensor> softmax_context(const ContextArguments& arguments);
std::tuple<Tensor, Tensor, Tensor> softmax_context_shapes(const ContextArguments& arguments);

/// Query and key [batch, tokens, heads * dim], rotated as tokens at `offset` and behind.
std::tuple<Tensor, Tensor> rotated(const Tensor& query, const Tensor& key, const Rotation& rotation,
                                   std::int64_t offset, std::int64_t heads);

/// Each entry `repeats` times, of all layers of that dtype: keys and values by turns.
std::vector<Tensor> repeat_cache(std::int64_t source_batch, std::int64_t repeats,
                                 at::ScalarType dtype);

}  // namespace anyaccel::ops
