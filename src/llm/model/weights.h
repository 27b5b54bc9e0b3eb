// A Llama model's tensors and their names.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

class Checkpoint;
class HostRandom;

/// One decoder layer. Query, key and value share one matrix, gate and up another: fewer, larger products.
struct LayerWeights {
  at::Tensor input_norm, qkv, qkv_bias, output, output_bias;
  at::Tensor post_norm, gate_up, gate_up_bias, down, down_bias;  ///< biases are undefined where the model has none
};

/// All tensors of a model, on the accelerator.
struct Weights {
  at::Tensor embedding;  ///< [vocab, hidden]
  std::vector<LayerWeights> layers;
  at::Tensor norm;
  at::Tensor head;  ///< [vocab, hidden]; the same tensor as `embedding` when tied
};

/// A tensor to be trained.
struct Parameter {
  std::string name;  ///< ours: fused matrices have one name
  at::Tensor tensor;
  bool decay;  ///< matrices decay, norms and biases do not
};

/// Uninitialized weights of the configuration's shapes.
Weights make_weights(const ModelConfig& config, c10::ScalarType dtype, c10::Device device);

/// Normal draws of `initializer_range` (residual projections narrower by 1/sqrt(2 * layers), as GPT-2), ones for norms,
/// zeros for biases; in a fixed order, from the host.
void initialize(Weights& weights, const ModelConfig& config, HostRandom& random);

/// Every tensor under its Hugging Face name; parts of fused matrices are views of them.
std::vector<std::pair<std::string, at::Tensor>> checkpoint_tensors(const Weights& weights, const ModelConfig& config);

/// What the optimizer sees: each tensor once, in a fixed order.
std::vector<Parameter> parameters(const Weights& weights);

/// Throws `corrupt` when a checkpoint lacks a tensor of the configuration or has it in another shape. Takes no memory.
void check_shapes(const ModelConfig& config, const Checkpoint& checkpoint);

/// Copies a checkpoint's tensors in, converting dtype. Throws `corrupt` for missing or misshapen ones.
void load(Weights& weights, const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace anyaccel::llm
