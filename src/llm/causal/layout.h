// The parameters of a CausalLM: their names, and their places in the model's weights.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/llm/config.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

/// A parameter as a view of a tensor in Weights.
struct ParameterPlace {
  std::string name;  ///< as in transformers' named_parameters()
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;  ///< number of elements before the view

  at::Tensor view(const at::Tensor& base) const {
    return base.as_strided(sizes, strides, base.storage_offset() + offset);
  }
};

/// The parameters of one tensor in Weights: its rows, or all of it, perhaps transposed.
using TensorLayout = std::vector<ParameterPlace>;

/// The parameters of each tensor, in the order of each_parameter(). Does not allocate memory for
/// weights.
std::vector<TensorLayout> parameter_layout(const ModelConfig& config);

/// A linear layer that may have a LoRA adapter: rows of a matrix in a decoder layer.
struct LinearModule {
  std::string name;  ///< for example "model.layers.0.self_attn.q_proj"
  std::size_t layer = 0;
  std::vector<Adapter> LayerAdapters::*place = nullptr;
  std::int64_t begin = 0, rows = 0, inputs = 0;
};

/// All linear layers except the head, routers and experts, in the order of the weights.
std::vector<LinearModule> linear_modules(const ModelConfig& config);

/// A matrix of a decoder layer that may have adapters.
struct LayerMatrix {
  at::Tensor LayerWeights::*weight;
  Scales LayerWeights::*scales;
  std::vector<Adapter> LayerAdapters::*place;
};
inline constexpr LayerMatrix kLayerMatrices[] = {
    {&LayerWeights::qkv, &LayerWeights::qkv_scales, &LayerAdapters::qkv},
    {&LayerWeights::output, &LayerWeights::output_scales, &LayerAdapters::output},
    {&LayerWeights::gate_up, &LayerWeights::gate_up_scales, &LayerAdapters::gate_up},
    {&LayerWeights::down, &LayerWeights::down_scales, &LayerAdapters::down},
};

}  // namespace anyaccel::llm
