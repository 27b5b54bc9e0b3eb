#include "llm/embed/bert.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "anyaccel/accelerator.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/support/compute_device.h"
#include "llm/support/large_pages.h"

namespace anyaccel::llm {

namespace {

using NamedTensor = std::pair<std::string, at::Tensor>;

constexpr std::pair<const char*, const char*> kOldNames[] = {
    {"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};

void add_pair(std::vector<NamedTensor>& out, const std::string& name, const at::Tensor& weight,
              const at::Tensor& bias) {
  out.emplace_back(name + ".weight", weight);
  out.emplace_back(name + ".bias", bias);
}

/// Returns the checkpoint's name for the tensor `name`, which may have a prefix or be an older
/// name. If the tensor is missing, returns `name`, so that the error names it.
std::string name_in(const Checkpoint& checkpoint, const std::string& name) {
  for (const char* prefix : {"", "bert."}) {
    if (std::string other = prefix + name; checkpoint.contains(other)) return other;
    for (const auto& [now, once] : kOldNames) {
      std::string other = prefix + name;
      const std::size_t place = other.rfind(now);
      if (place != std::string::npos &&
          checkpoint.contains(other.replace(place, std::string::npos, once))) {
        return other;
      }
    }
  }
  return name;
}

}  // namespace

BertWeights make_bert_weights(const BertConfig& config, c10::ScalarType dtype, c10::Device device) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  LargePages memory, matrices;  // separate blocks, because pack_layers() frees the layers' matrices
  const auto make_in = [&](LargePages& pages, at::IntArrayRef shape) {
    return device.is_cpu() ? pages.empty(shape, dtype) : at::empty(shape, options);
  };
  const auto make = [&](at::IntArrayRef shape) { return make_in(memory, shape); };
  const auto make_matrix = [&](at::IntArrayRef shape) { return make_in(matrices, shape); };
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  BertWeights out{.words = make({config.vocab_size, hidden}),
                  .positions = make({config.max_positions, hidden}),
                  .types = make({config.token_types, hidden}),
                  .norm = make({hidden}),
                  .norm_bias = make({hidden}),
                  .layers = {},
                  .packed = {}};
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    out.layers.push_back({.qkv = make_matrix({3 * hidden, hidden}),
                          .qkv_bias = make({3 * hidden}),
                          .output = make_matrix({hidden, hidden}),
                          .output_bias = make({hidden}),
                          .attention_norm = make({hidden}),
                          .attention_norm_bias = make({hidden}),
                          .inner = make_matrix({inner, hidden}),
                          .inner_bias = make({inner}),
                          .down = make_matrix({hidden, inner}),
                          .down_bias = make({hidden}),
                          .norm = make({hidden}),
                          .norm_bias = make({hidden})});
  }
  return out;
}

std::vector<NamedTensor> bert_tensors(const BertWeights& weights) {
  std::vector<NamedTensor> out = {{"embeddings.word_embeddings.weight", weights.words},
                                  {"embeddings.position_embeddings.weight", weights.positions},
                                  {"embeddings.token_type_embeddings.weight", weights.types}};
  add_pair(out, "embeddings.LayerNorm", weights.norm, weights.norm_bias);
  const std::int64_t hidden = weights.norm.size(0);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const BertLayer& layer = weights.layers[i];
    const std::string prefix = "encoder.layer." + std::to_string(i) + ".";
    std::int64_t begin = 0;
    for (const char* part : {"query", "key", "value"}) {
      add_pair(out, prefix + "attention.self." + part, layer.qkv.narrow(0, begin, hidden),
               layer.qkv_bias.narrow(0, begin, hidden));
      begin += hidden;
    }
    add_pair(out, prefix + "attention.output.dense", layer.output, layer.output_bias);
    add_pair(out, prefix + "attention.output.LayerNorm", layer.attention_norm,
             layer.attention_norm_bias);
    add_pair(out, prefix + "intermediate.dense", layer.inner, layer.inner_bias);
    add_pair(out, prefix + "output.dense", layer.down, layer.down_bias);
    add_pair(out, prefix + "output.LayerNorm", layer.norm, layer.norm_bias);
  }
  return out;
}

BertWeights load_bert(const BertConfig& config, const Checkpoint& checkpoint,
                      c10::ScalarType dtype) {
  const c10::AutoGradMode no_gradient(false);
  const auto shapes = make_bert_weights(config, dtype, c10::Device(c10::kMeta));
  for (const auto& [name, tensor] : bert_tensors(shapes))
    checkpoint.floats(name_in(checkpoint, name), tensor.sizes());
  BertWeights weights = make_bert_weights(config, dtype, compute_device());
  for (auto& [name, tensor] : bert_tensors(weights)) {
    tensor.copy_(checkpoint.floats(name_in(checkpoint, name), tensor.sizes()));
  }
  pack_layers(weights);
  return weights;
}

}  // namespace anyaccel::llm
