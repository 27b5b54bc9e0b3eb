#include "llm/model/weights.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "llm/checkpoint/checkpoint.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

namespace {

std::int64_t query_size(const ModelConfig& config) { return config.num_heads * config.head_dim; }
std::int64_t key_size(const ModelConfig& config) { return config.num_kv_heads * config.head_dim; }

/// Rows of a fused matrix (or bias) under the names of their parts.
void add_parts(std::vector<std::pair<std::string, at::Tensor>>& out, const std::string& prefix, const at::Tensor& fused,
               const char* suffix, std::initializer_list<std::pair<const char*, std::int64_t>> parts) {
  if (!fused.defined()) return;
  std::int64_t begin = 0;
  for (const auto& [name, rows] : parts) {
    out.emplace_back(prefix + name + suffix, fused.detach().narrow(0, begin, rows));
    begin += rows;
  }
}

}  // namespace

Weights make_weights(const ModelConfig& config, c10::ScalarType dtype, c10::Device device) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const auto make = [&](at::IntArrayRef shape) { return at::empty(shape, options); };
  const std::int64_t qkv = query_size(config) + 2 * key_size(config);
  Weights weights;
  weights.embedding = make({config.vocab_size, config.hidden_size});
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    LayerWeights layer;
    layer.input_norm = make({config.hidden_size});
    layer.qkv = make({qkv, config.hidden_size});
    layer.output = make({config.hidden_size, query_size(config)});
    layer.post_norm = make({config.hidden_size});
    layer.gate_up = make({2 * config.intermediate_size, config.hidden_size});
    layer.down = make({config.hidden_size, config.intermediate_size});
    if (config.attention_bias) {
      layer.qkv_bias = make({qkv});
      layer.output_bias = make({config.hidden_size});
    }
    if (config.mlp_bias) {
      layer.gate_up_bias = make({2 * config.intermediate_size});
      layer.down_bias = make({config.hidden_size});
    }
    weights.layers.push_back(std::move(layer));
  }
  weights.norm = make({config.hidden_size});
  weights.head = config.tie_word_embeddings ? weights.embedding : make({config.vocab_size, config.hidden_size});
  return weights;
}

void initialize(Weights& weights, const ModelConfig& config, HostRandom& random) {
  const c10::AutoGradMode no_gradient(false);
  const double deviation = config.initializer_range;
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  random.fill_normal(weights.embedding, 0.0, deviation);
  for (LayerWeights& layer : weights.layers) {
    layer.input_norm.fill_(1.0);
    layer.post_norm.fill_(1.0);
    random.fill_normal(layer.qkv, 0.0, deviation);
    random.fill_normal(layer.output, 0.0, residual);
    random.fill_normal(layer.gate_up, 0.0, deviation);
    random.fill_normal(layer.down, 0.0, residual);
    for (at::Tensor* bias : {&layer.qkv_bias, &layer.output_bias, &layer.gate_up_bias, &layer.down_bias}) {
      if (bias->defined()) bias->zero_();
    }
  }
  weights.norm.fill_(1.0);
  if (!config.tie_word_embeddings) random.fill_normal(weights.head, 0.0, deviation);
}

std::vector<std::pair<std::string, at::Tensor>> checkpoint_tensors(const Weights& weights, const ModelConfig& config) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  const std::int64_t query = query_size(config);
  const std::int64_t key = key_size(config);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  out.emplace_back("model.embed_tokens.weight", weights.embedding.detach());
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    out.emplace_back(prefix + "input_layernorm.weight", layer.input_norm.detach());
    out.emplace_back(prefix + "post_attention_layernorm.weight", layer.post_norm.detach());
    const std::tuple<const at::Tensor*, const at::Tensor*, const char*> kinds[] = {
        {&layer.qkv, &layer.output, ".weight"}, {&layer.qkv_bias, &layer.output_bias, ".bias"}};
    for (const auto& [qkv, output, suffix] : kinds) {
      add_parts(out, prefix + "self_attn.", *qkv, suffix, {{"q_proj", query}, {"k_proj", key}, {"v_proj", key}});
      add_parts(out, prefix + "self_attn.", *output, suffix, {{"o_proj", hidden}});
    }
    const std::tuple<const at::Tensor*, const at::Tensor*, const char*> inner_kinds[] = {
        {&layer.gate_up, &layer.down, ".weight"}, {&layer.gate_up_bias, &layer.down_bias, ".bias"}};
    for (const auto& [gate_up, down, suffix] : inner_kinds) {
      add_parts(out, prefix + "mlp.", *gate_up, suffix, {{"gate_proj", inner}, {"up_proj", inner}});
      add_parts(out, prefix + "mlp.", *down, suffix, {{"down_proj", hidden}});
    }
  }
  out.emplace_back("model.norm.weight", weights.norm.detach());
  if (!config.tie_word_embeddings) out.emplace_back("lm_head.weight", weights.head.detach());
  return out;
}

std::vector<Parameter> parameters(const Weights& weights) {
  std::vector<Parameter> out;
  const auto add = [&](std::string name, const at::Tensor& tensor) {
    if (tensor.defined()) out.push_back({std::move(name), tensor, tensor.dim() > 1});
  };
  add("embedding", weights.embedding);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string prefix = "layers." + std::to_string(i) + ".";
    add(prefix + "input_norm", layer.input_norm);
    add(prefix + "qkv", layer.qkv);
    add(prefix + "qkv_bias", layer.qkv_bias);
    add(prefix + "output", layer.output);
    add(prefix + "output_bias", layer.output_bias);
    add(prefix + "post_norm", layer.post_norm);
    add(prefix + "gate_up", layer.gate_up);
    add(prefix + "gate_up_bias", layer.gate_up_bias);
    add(prefix + "down", layer.down);
    add(prefix + "down_bias", layer.down_bias);
  }
  add("norm", weights.norm);
  if (!weights.head.is_same(weights.embedding)) add("head", weights.head);
  return out;
}

void check_shapes(const ModelConfig& config, const Checkpoint& checkpoint) {
  const auto shapes = make_weights(config, c10::kFloat, c10::Device(c10::kMeta));
  for (const auto& [name, tensor] : checkpoint_tensors(shapes, config)) checkpoint.tensor(name, tensor.sizes());
}

void load(Weights& weights, const ModelConfig& config, const Checkpoint& checkpoint) {
  const c10::AutoGradMode no_gradient(false);
  for (auto& [name, tensor] : checkpoint_tensors(weights, config)) {
    tensor.copy_(checkpoint.tensor(name, tensor.sizes()));
  }
}

}  // namespace anyaccel::llm
