#include "llm/model/llama.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "anyaccel/accelerator.h"
#include "llm/model/functions.h"

namespace anyaccel::llm {

namespace {

std::optional<at::Tensor> maybe(const at::Tensor& bias) {
  return bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
}

/// Which of `past` + `time` positions each of `time` new ones may see, where the kernels' own rule does not fit.
at::Tensor causal_mask(std::int64_t past, std::int64_t time, c10::Device device) {
  const auto options = at::TensorOptions().dtype(c10::kLong).device(device);
  const at::Tensor rows = at::arange(past, past + time, options).unsqueeze(1);
  return at::arange(past + time, options).unsqueeze(0).le(rows);
}

at::Tensor attention(const LayerWeights& layer, const ModelConfig& config, const at::Tensor& x, const at::Tensor& cos,
                     const at::Tensor& sin, std::int64_t index, KvCache* cache, const std::optional<at::Tensor>& mask) {
  const at::Tensor qkv = at::linear(x, layer.qkv, maybe(layer.qkv_bias));
  auto [query, key, value] = rotary_split(qkv, cos, sin, config.num_heads, config.num_kv_heads);
  if (cache) std::tie(key, value) = cache->append(index, key, value);
  // One new token sees everything; from an empty cache the plain triangle holds; else the mask says.
  const bool causal = !mask && query.size(2) > 1;
  const at::Tensor mixed = at::scaled_dot_product_attention(query, key, value, mask, 0.0, causal, std::nullopt,
                                                            /*enable_gqa=*/config.num_heads != config.num_kv_heads);
  const at::Tensor rows = mixed.transpose(1, 2).reshape({x.size(0), x.size(1), config.num_heads * config.head_dim});
  return at::linear(rows, layer.output, maybe(layer.output_bias));
}

at::Tensor feed_forward(const LayerWeights& layer, const at::Tensor& x) {
  return at::linear(swiglu(at::linear(x, layer.gate_up, maybe(layer.gate_up_bias))), layer.down,
                    maybe(layer.down_bias));
}

}  // namespace

KvCache::KvCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, c10::ScalarType dtype)
    : capacity_(capacity) {
  const auto options = at::TensorOptions().dtype(dtype).device(get_accelerator().torch_device());
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    keys_.push_back(at::empty({batch, config.num_kv_heads, capacity, config.head_dim}, options));
    values_.push_back(at::empty({batch, config.num_kv_heads, capacity, config.head_dim}, options));
  }
}

std::pair<at::Tensor, at::Tensor> KvCache::append(std::int64_t layer, const at::Tensor& key, const at::Tensor& value) {
  const std::int64_t time = key.size(2);
  const auto index = static_cast<std::size_t>(layer);
  if (length_ + time > capacity_) {
    throw Error(ErrorCode::invalid_argument, "KvCache::append",
                {.what = "the cache is full",
                 .got = std::to_string(length_ + time) + " positions",
                 .want = "at most " + std::to_string(capacity_)});
  }
  keys_[index].narrow(2, length_, time).copy_(key);
  values_[index].narrow(2, length_, time).copy_(value);
  return {keys_[index].narrow(2, 0, length_ + time), values_[index].narrow(2, 0, length_ + time)};
}

at::Tensor llama_forward(const Weights& weights, const ModelConfig& config, RopeTables& rope, const at::Tensor& ids,
                         KvCache* cache, bool last_only, const DropoutMasks* masks) {
  const std::int64_t past = cache ? cache->length() : 0;
  const std::int64_t time = ids.size(1);
  const auto [cos, sin] = rope.rows(past, time);
  std::optional<at::Tensor> mask;
  if (past > 0 && time > 1) mask = causal_mask(past, time, ids.device());
  at::Tensor x = at::embedding(weights.embedding, ids);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const at::Tensor normed = rms_norm(x, layer.input_norm, config.rms_norm_eps);
    at::Tensor change = attention(layer, config, normed, cos, sin, static_cast<std::int64_t>(i), cache, mask);
    if (masks) change = change.mul((*masks)[2 * i]);
    x = x.add(change);
    change = feed_forward(layer, rms_norm(x, layer.post_norm, config.rms_norm_eps));
    if (masks) change = change.mul((*masks)[2 * i + 1]);
    x = x.add(change);
  }
  if (cache) cache->advance(time);
  if (last_only) x = x.narrow(1, time - 1, 1);
  return at::linear(rms_norm(x, weights.norm, config.rms_norm_eps), weights.head);
}

}  // namespace anyaccel::llm
