#include "llm/model/weights.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "llm/quantize/stored_weights.h"
#include "llm/support/host_random.h"

namespace anyaccel::llm {

namespace {

std::int64_t query_size(const ModelConfig& config) { return config.num_heads * config.head_dim; }
std::int64_t key_size(const ModelConfig& config) { return config.num_kv_heads * config.head_dim; }

}  // namespace

Weights make_weights(const ModelConfig& config, c10::ScalarType dtype, c10::Device device) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const auto make = [&](at::IntArrayRef shape) { return at::empty(shape, options); };
  const std::int64_t qkv = query_size(config) + 2 * key_size(config);
  Weights weights;
  const auto norm = [&](at::Tensor& weight, at::Tensor& bias) {
    if (!config.norm_weights) return;
    weight = make({config.hidden_size});
    if (config.layer_norm) bias = make({config.hidden_size});
  };
  const std::int64_t width = config.embedding_width();
  const std::int64_t first = (config.gated ? 2 : 1) * config.intermediate_size;
  weights.embedding = make({config.vocab_size, width});
  if (config.learned_positions) {
    weights.positions = make({config.position_offset + config.max_positions, config.hidden_size});
  }
  if (width != config.hidden_size) {
    weights.project_in = make({config.hidden_size, width});
    weights.project_out = make({width, config.hidden_size});
  }
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    LayerWeights layer;
    norm(layer.input_norm, layer.input_norm_bias);
    layer.qkv = make({qkv, config.hidden_size});
    layer.output = make({config.hidden_size, query_size(config)});
    norm(layer.post_norm, layer.post_norm_bias);
    if (config.has_experts(i)) {
      layer.router = make({config.num_experts, config.hidden_size});
      layer.expert_gate_up = make({config.num_experts, 2 * config.expert_size, config.hidden_size});
      layer.expert_down = make({config.num_experts, config.hidden_size, config.expert_size});
    } else {
      layer.gate_up = make({first, config.hidden_size});
      layer.down = make({config.hidden_size, config.intermediate_size});
    }
    if (config.norms_after) {
      layer.after_attention = make({config.hidden_size});
      layer.after_feed_forward = make({config.hidden_size});
    }
    if (config.qkv_bias) layer.qkv_bias = make({qkv});
    if (config.output_bias) layer.output_bias = make({config.hidden_size});
    if (config.query_key_norm) {
      layer.query_norm = make({config.head_dim});
      layer.key_norm = make({config.head_dim});
    }
    if (config.mlp_bias && !config.has_experts(i)) {
      layer.gate_up_bias = make({first});
      layer.down_bias = make({config.hidden_size});
    }
    weights.layers.push_back(std::move(layer));
  }
  if (config.final_norm) norm(weights.norm, weights.norm_bias);
  weights.head = config.tie_word_embeddings ? weights.embedding : make({config.vocab_size, width});
  return weights;
}

void initialize(Weights& weights, const ModelConfig& config, HostRandom& random) {
  const c10::AutoGradMode no_gradient(false);
  const double deviation = config.initializer_range;
  const double one = config.norm_plus_one ? 0.0 : 1.0;  // the norm weight that multiplies by 1
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  random.fill_normal(weights.embedding, 0.0, deviation);
  for (at::Tensor* matrix : {&weights.positions, &weights.project_in, &weights.project_out}) {
    if (matrix->defined()) random.fill_normal(*matrix, 0.0, deviation);
  }
  for (LayerWeights& layer : weights.layers) {
    for (at::Tensor* norm : {&layer.input_norm, &layer.post_norm, &layer.query_norm,
                             &layer.key_norm, &layer.after_attention, &layer.after_feed_forward}) {
      if (norm->defined()) norm->fill_(one);
    }
    random.fill_normal(layer.qkv, 0.0, deviation);
    random.fill_normal(layer.output, 0.0, residual);
    if (layer.router.defined()) {
      for (at::Tensor* wide : {&layer.router, &layer.expert_gate_up})
        random.fill_normal(*wide, 0.0, deviation);
      random.fill_normal(layer.expert_down, 0.0, residual);
    } else {
      random.fill_normal(layer.gate_up, 0.0, deviation);
      random.fill_normal(layer.down, 0.0, residual);
    }
    for (at::Tensor* bias : {&layer.qkv_bias, &layer.output_bias, &layer.gate_up_bias,
                             &layer.down_bias, &layer.input_norm_bias, &layer.post_norm_bias}) {
      if (bias->defined()) bias->zero_();
    }
  }
  if (weights.norm.defined()) weights.norm.fill_(one);
  if (weights.norm_bias.defined()) weights.norm_bias.zero_();
  if (!config.tie_word_embeddings) random.fill_normal(weights.head, 0.0, deviation);
}

void each_parameter(
    Weights& weights,
    const std::function<void(const std::string& name, at::Tensor& tensor)>& function) {
  const auto add = [&](const std::string& name, at::Tensor& tensor) {
    if (tensor.defined()) function(name, tensor);
  };
  add("embedding", weights.embedding);
  add("positions", weights.positions);
  add("project_in", weights.project_in);
  add("project_out", weights.project_out);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    LayerWeights& layer = weights.layers[i];
    const std::string prefix = "layers." + std::to_string(i) + ".";
    add(prefix + "input_norm", layer.input_norm);
    add(prefix + "input_norm_bias", layer.input_norm_bias);
    add(prefix + "qkv", layer.qkv);
    add(prefix + "qkv_bias", layer.qkv_bias);
    add(prefix + "query_norm", layer.query_norm);
    add(prefix + "key_norm", layer.key_norm);
    add(prefix + "output", layer.output);
    add(prefix + "output_bias", layer.output_bias);
    add(prefix + "after_attention", layer.after_attention);
    add(prefix + "post_norm", layer.post_norm);
    add(prefix + "post_norm_bias", layer.post_norm_bias);
    add(prefix + "gate_up", layer.gate_up);
    add(prefix + "gate_up_bias", layer.gate_up_bias);
    add(prefix + "down", layer.down);
    add(prefix + "down_bias", layer.down_bias);
    add(prefix + "after_feed_forward", layer.after_feed_forward);
    add(prefix + "router", layer.router);
    add(prefix + "expert_gate_up", layer.expert_gate_up);
    add(prefix + "expert_down", layer.expert_down);
  }
  add("norm", weights.norm);
  add("norm_bias", weights.norm_bias);
  if (!weights.head.is_same(weights.embedding)) add("head", weights.head);
}

void each_matrix(Weights& weights,
                 const std::function<void(const std::string& name, at::Tensor& weight,
                                          Scales& scales)>& function) {
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    LayerWeights& layer = weights.layers[i];
    const std::string prefix = "layers." + std::to_string(i) + ".";
    if (layer.qkv.defined()) function(prefix + "qkv", layer.qkv, layer.qkv_scales);
    function(prefix + "output", layer.output, layer.output_scales);
    if (layer.gate_up.defined()) function(prefix + "gate_up", layer.gate_up, layer.gate_up_scales);
    if (layer.down.defined()) function(prefix + "down", layer.down, layer.down_scales);
  }
  function("head", weights.head, weights.head_scales);
}

std::vector<Parameter> parameters(const Weights& weights) {
  std::vector<Parameter> out;
  Weights same = weights;  // shares the tensors
  each_parameter(same, [&](const std::string& name, at::Tensor& tensor) {
    out.push_back({name, tensor, tensor.dim() > 1});
  });
  return out;
}

void check_shapes(const ModelConfig& config, const StoredWeights& stored) {
  const auto shapes = make_weights(config, c10::kFloat, c10::Device(c10::kMeta));
  // Check tensors one at a time: the first missing one ends the loop, regardless of the number of
  // experts in the configuration.
  visit_tensors(shapes, config, [&](const std::string& name, const at::Tensor& tensor) {
    stored.check(name, tensor.sizes());
  });
}

}  // namespace anyaccel::llm
