#include "llm/causal/layout.h"

#include <unordered_map>

namespace anyaccel::llm {

namespace {

const void* memory_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

/// The checkpoint tensors that share the memory of each tensor.
using Pieces = std::unordered_map<const void*, std::vector<std::pair<std::string, at::Tensor>>>;

Pieces pieces_of(const Weights& weights, const ModelConfig& config) {
  Pieces out;
  visit_tensors(weights, config, [&](const std::string& name, const at::Tensor& tensor) {
    out[memory_of(tensor)].emplace_back(name, tensor);
  });
  return out;
}

/// transformers keeps the experts of a layer in one tensor, and names the block "mlp" in all
/// families.
std::string expert_name(const std::string& internal, const std::string& stored) {
  const std::string layer = stored.substr(0, stored.find('.', std::string("model.layers.").size()));
  if (internal.ends_with(".router")) return layer + ".mlp.gate.weight";
  return layer + (internal.ends_with(".expert_gate_up") ? ".mlp.experts.gate_up_proj"
                                                        : ".mlp.experts.down_proj");
}

bool of_experts(const std::string& internal) {
  return internal.ends_with(".router") || internal.ends_with(".expert_gate_up") ||
         internal.ends_with(".expert_down");
}

ParameterPlace place_of(const std::string& name, const at::Tensor& tensor) {
  return {name, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()};
}

}  // namespace

std::vector<TensorLayout> parameter_layout(const ModelConfig& config) {
  Weights weights = make_weights(config, c10::kFloat, c10::Device(c10::kMeta));
  const Pieces pieces = pieces_of(weights, config);
  std::vector<TensorLayout> out;
  each_parameter(weights, [&](const std::string& internal, at::Tensor& tensor) {
    TensorLayout& places = out.emplace_back();
    const auto& found = pieces.at(memory_of(tensor));
    if (of_experts(internal)) {
      places.push_back(place_of(expert_name(internal, found.front().first), tensor));
      return;
    }
    for (const auto& [name, piece] : found) places.push_back(place_of(name, piece));
  });
  return out;
}

std::vector<LinearModule> linear_modules(const ModelConfig& config) {
  const Weights weights = make_weights(config, c10::kFloat, c10::Device(c10::kMeta));
  const Pieces pieces = pieces_of(weights, config);
  std::vector<LinearModule> out;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    for (const LayerMatrix& matrix : kLayerMatrices) {
      const at::Tensor& base = weights.layers[i].*matrix.weight;
      if (!base.defined()) continue;
      const std::int64_t inputs = base.size(1);
      for (const auto& [name, piece] : pieces.at(memory_of(base))) {
        out.push_back({.name = name.substr(0, name.rfind('.')),
                       .layer = i,
                       .place = matrix.place,
                       .begin = piece.storage_offset() / inputs,
                       .rows = piece.numel() / inputs,
                       .inputs = inputs});
      }
    }
  }
  return out;
}

}  // namespace anyaccel::llm
