// A Llama model's tensors and their names.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/llm/config.h"
#include "llm/quantize/linear.h"

namespace anyaccel::llm {

class Checkpoint;
class DecodeStep;
class HostRandom;
class Shards;
class StoredWeights;
struct ParallelPlan;

/// One decoder layer. Query, key and value share one matrix, gate and up another: fewer, larger
/// products. Without a gate gate_up is up alone. Where a mapped file has them one by one they stay
/// there: then these are undefined, and the parts are given.
struct LayerWeights {
  at::Tensor input_norm, input_norm_bias, qkv, qkv_bias, output, output_bias;
  at::Tensor query_norm, key_norm;  ///< [head_dim], undefined where the model has none
  at::Tensor after_attention,
      after_feed_forward;  ///< norms behind them, undefined where the model has none
  at::Tensor post_norm, post_norm_bias, gate_up, gate_up_bias, down,
      down_bias;                      ///< biases are undefined where the model has none
  at::Tensor router;                  ///< [experts, hidden]; undefined in layers without experts
  at::Tensor expert_gate_up;          ///< [experts, 2 * expert_size, hidden], in place of gate_up
  at::Tensor expert_down;             ///< [experts, hidden, expert_size], in place of down
  std::vector<at::Tensor> qkv_parts;  ///< query, key, value
  std::vector<at::Tensor> gate_up_parts;                          ///< gate, up
  Scales qkv_scales, output_scales, gate_up_scales, down_scales;  ///< where these are integers
};

/// All tensors of a model, on the accelerator.
struct Weights {
  at::Tensor embedding;  ///< [vocab, embedding width]
  at::Tensor
      positions;  ///< [offset + max_positions, hidden], undefined where positions are rotated
  at::Tensor project_in, project_out;  ///< undefined where the embedding is as wide as the layers
  std::vector<LayerWeights> layers;
  at::Tensor norm, norm_bias;  ///< undefined where the model has none
  at::Tensor head;         ///< [vocab, embedding width]; the same tensor as `embedding` when tied
  Scales head_scales;      ///< where the head is integers; then it is not the embedding's tensor
  bool quantized = false;  ///< whether matrices are integers
  std::shared_ptr<Shards> shards;  ///< where these are one rank's part of the model
  /// The faster way of passes over few tokens, once one was asked for: loading an op may mean
  /// building it.
  struct Step {
    bool asked = false;
    std::shared_ptr<DecodeStep> step;  ///< null where there is none
    bool no_graphs = false;            ///< the accelerator has none, or a capture failed
  };
  std::shared_ptr<Step> step = std::make_shared<Step>();
};

/// A tensor to be trained.
struct Parameter {
  std::string name;  ///< ours: fused matrices have one name
  at::Tensor tensor;
  bool decay;  ///< matrices decay, norms and biases do not
};

/// Uninitialized weights of the configuration's shapes.
Weights make_weights(const ModelConfig& config, c10::ScalarType dtype, c10::Device device);

/// Normal draws of `initializer_range` (residual projections narrower by 1/sqrt(2 * layers), as
/// GPT-2), ones for norms, zeros for biases; in a fixed order, from the host.
void initialize(Weights& weights, const ModelConfig& config, HostRandom& random);

/// Called with each tensor's Hugging Face name and the tensor.
using TensorVisitor = std::function<void(const std::string& name, const at::Tensor& tensor)>;
void visit_tensors(const Weights& weights, const ModelConfig& config, const TensorVisitor& visit);

/// What visit_tensors() visits: every tensor under its Hugging Face name; parts of fused matrices
/// are views of them.
std::vector<std::pair<std::string, at::Tensor>> checkpoint_tensors(const Weights& weights,
                                                                   const ModelConfig& config);

/// What a file calls the tensor of this name: one that was saved from the model without its head
/// lacks the first part.
std::string stored_name(const Checkpoint& checkpoint, const std::string& name);

/// What the optimizer sees: each tensor once, in a fixed order.
std::vector<Parameter> parameters(const Weights& weights);

/// Calls function(name, tensor) for each tensor that there is, once, in that order.
void each_parameter(
    Weights& weights,
    const std::function<void(const std::string& name, at::Tensor& tensor)>& function);

/// Calls function(name, weight, scales) for each matrix that may be integers.
void each_matrix(Weights& weights,
                 const std::function<void(const std::string& name, at::Tensor& weight,
                                          Scales& scales)>& function);

/// Throws `corrupt` when a checkpoint lacks a tensor of the configuration or has it in another
/// shape. Takes no memory.
void check_shapes(const ModelConfig& config, const StoredWeights& stored);

/// Copies a checkpoint's tensors in, converting dtype; matrices that it holds as integers stay so
/// where they can. Throws `corrupt` for missing or misshapen ones. `plan`: of the rank whose part
/// of the model the weights are (the configuration is then its `local`), or null; no byte of the
/// others' parts is read.
void load(Weights& weights, const ModelConfig& config, const StoredWeights& stored,
          const ParallelPlan* plan = nullptr);

/// The same for weights that nobody changes: what a file has as it is needed is used where it is
/// mapped, not copied. What is copied to host memory lies in large pages, and is no longer the
/// tensor that it was.
void load_mapped(Weights& weights, const ModelConfig& config, const StoredWeights& stored,
                 const ParallelPlan* plan = nullptr);

}  // namespace anyaccel::llm
