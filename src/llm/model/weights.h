// A Llama model's weights and their names.
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

/// A LoRA adapter for rows [begin, begin + rows) of a matrix: adds `scale * b a x` to their
/// outputs.
struct Adapter {
  std::int64_t begin, rows;
  at::Tensor a, b;  ///< [rank, inputs], [rows, rank]
  double scale;
};

/// The adapters of one decoder layer, in ascending order of their rows.
struct LayerAdapters {
  std::vector<Adapter> qkv, output, gate_up, down;
};

/// One decoder layer. Query, key and value share a matrix, and so do gate and up, for fewer and
/// larger matrix products. Without a gate, gate_up contains only up. If a mapped file stores the
/// parts separately, the fused matrices are undefined and the parts are set.
struct LayerWeights {
  at::Tensor input_norm, input_norm_bias, qkv, qkv_bias, output, output_bias;
  at::Tensor query_norm, key_norm;  ///< [head_dim]; undefined if the model has no such norms
  /// Norms after attention and after the feed-forward layer; undefined if the model has no such
  /// norms.
  at::Tensor after_attention, after_feed_forward;
  /// Biases are undefined if the model has no biases.
  at::Tensor post_norm, post_norm_bias, gate_up, gate_up_bias, down, down_bias;
  at::Tensor router;                  ///< [experts, hidden]; undefined in layers without experts
  at::Tensor expert_gate_up;          ///< [experts, 2 * expert_size, hidden], in place of gate_up
  at::Tensor expert_down;             ///< [experts, hidden, expert_size], in place of down
  std::vector<at::Tensor> qkv_parts;  ///< query, key, value
  std::vector<at::Tensor> gate_up_parts;  ///< gate, up
  /// Defined for quantized matrices.
  Scales qkv_scales, output_scales, gate_up_scales, down_scales;
  std::shared_ptr<const LayerAdapters> adapters;  ///< null without LoRA
};

/// All weights of a model, on the accelerator.
struct Weights {
  at::Tensor embedding;  ///< [vocab, embedding width]
  /// [offset + max_positions, hidden]; undefined without learned positions.
  at::Tensor positions;
  at::Tensor project_in, project_out;  ///< undefined if the embedding is as wide as the layers
  std::vector<LayerWeights> layers;
  at::Tensor norm, norm_bias;  ///< undefined if the model does not have them
  at::Tensor head;             ///< [vocab, embedding width]; the tensor `embedding` if tied
  Scales head_scales;          ///< for a quantized head, which never shares the embedding's tensor
  bool quantized = false;      ///< true if matrices are quantized
  std::shared_ptr<Shards> shards;  ///< set if these weights are one rank's part of the model
  /// A faster code path for passes over a few tokens. Created on first use, because loading an op
  /// may build the op.
  struct Step {
    bool asked = false;
    std::shared_ptr<DecodeStep> step;  ///< null if unsupported
    bool no_graphs = false;            ///< graphs are unsupported, or a capture failed
  };
  std::shared_ptr<Step> step = std::make_shared<Step>();
};

/// A trainable tensor.
struct Parameter {
  std::string name;  ///< internal name; a fused matrix has one name
  at::Tensor tensor;
  bool decay;  ///< true for matrices, false for norms and biases
};

/// Creates uninitialized weights with the configuration's shapes.
Weights make_weights(const ModelConfig& config, c10::ScalarType dtype, c10::Device device);

/// Initializes weights in a fixed order with random numbers drawn on the host. Matrices are
/// normally distributed with standard deviation `initializer_range`, multiplied by 1/sqrt(2 *
/// layers) for residual projections as in GPT-2. Norms are 1, biases 0.
void initialize(Weights& weights, const ModelConfig& config, HostRandom& random);

/// Called with each tensor's Hugging Face name and the tensor.
using TensorVisitor = std::function<void(const std::string& name, const at::Tensor& tensor)>;
void visit_tensors(const Weights& weights, const ModelConfig& config, const TensorVisitor& visit);

/// Lists the tensors that visit_tensors() visits: all tensors with their Hugging Face names. Parts
/// of fused matrices are views.
std::vector<std::pair<std::string, at::Tensor>> checkpoint_tensors(const Weights& weights,
                                                                   const ModelConfig& config);

/// Returns the name under which the file stores a tensor. Checkpoints saved from a model without
/// its head omit the first part of the name.
std::string stored_name(const Checkpoint& checkpoint, const std::string& name);

/// Lists each trainable tensor once, in a fixed order.
std::vector<Parameter> parameters(const Weights& weights);

/// Calls function(name, tensor) for each defined tensor once, in the order of parameters().
void each_parameter(
    Weights& weights,
    const std::function<void(const std::string& name, at::Tensor& tensor)>& function);

/// Calls function(name, weight, scales) for each matrix that may be quantized.
void each_matrix(Weights& weights,
                 const std::function<void(const std::string& name, at::Tensor& weight,
                                          Scales& scales)>& function);

/// Throws `corrupt` if the checkpoint lacks a tensor that the configuration requires, or stores it
/// with a different shape. Does not allocate memory for tensors.
void check_shapes(const ModelConfig& config, const StoredWeights& stored);

/// Copies a checkpoint's tensors and converts their dtype. Quantized matrices stay quantized where
/// supported. Throws `corrupt` for missing or misshapen tensors. `plan`: this rank's plan, or null.
/// With a plan, `config` is the plan's `local`, and other ranks' parts are not read.
void load(Weights& weights, const ModelConfig& config, const StoredWeights& stored,
          const ParallelPlan* plan = nullptr);

/// Like load(), for weights that do not change: tensors that are stored in the required form stay
/// in the mapped file. Other tensors are copied to large pages on the host. May replace the tensors
/// in `weights`.
void load_mapped(Weights& weights, const ModelConfig& config, const StoredWeights& stored,
                 const ParallelPlan* plan = nullptr);

}  // namespace anyaccel::llm
