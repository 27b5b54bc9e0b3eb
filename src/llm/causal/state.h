// State of a CausalLM.
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/llm/causal_lm.h"
#include "anyaccel/llm/lora.h"
#include "llm/causal/layout.h"
#include "llm/checkpoint/training_config.h"
#include "llm/model/state.h"

namespace anyaccel::llm {

/// The parameters of one tensor in Weights; none if the tensor is quantized.
struct Leaves {
  TensorLayout places;
  std::vector<at::Tensor> tensors;  ///< leaf tensors, one per place
};

/// A linear layer with its adapter.
struct AdaptedModule {
  LinearModule module;
  at::Tensor a, b;
};

/// A LoRA adapter and the weights that merging replaced.
struct AdapterState {
  LoraConfig config;
  std::vector<AdaptedModule> modules;
  bool merged = false;
  /// Quantized matrices before merging, by layer and index into kLayerMatrices.
  std::map<std::pair<std::size_t, std::size_t>, QuantizedMatrix> kept;

  double scale() const;
  /// The adapters of each layer, for LayerWeights::adapters.
  std::vector<std::shared_ptr<const LayerAdapters>> by_layer(std::size_t layers) const;
};

struct CausalState {
  Model handle;
  std::shared_ptr<ModelState> model;  ///< state of `handle`
  TrainingConfig training;
  std::string config_text;       ///< config.json; empty if the model was created from a ModelConfig
  std::string generation_text;   ///< generation_config.json; empty: none
  std::filesystem::path folder;  ///< from which the model was read; empty if created
  bool checkpointing = false;
  std::vector<Leaves> leaves;  ///< in the order of each_parameter()
  std::optional<AdapterState> adapter;
  /// Modules for the parts of parameter names, by path.
  std::map<std::string, std::shared_ptr<torch::nn::Module>> nodes;

  explicit CausalState(Model created) : handle(std::move(created)), model(handle.state()) {}

  /// Copies back parameters whose memory was replaced. Throws `invalid_state` if their shape or
  /// dtype differs.
  void restore_sharing();
  /// Calls function(base, leaves) for each tensor in the model's weights.
  void each_leaf(const std::function<void(at::Tensor& base, Leaves& own)>& function);
  /// The model's weights as functions of the leaves.
  Weights differentiable() const;
  /// Discards the decoder op's cached list of weights. Call it after replacing tensors or adapters.
  void weights_replaced() { model->weights.step = std::make_shared<Weights::Step>(); }
};

/// Creates leaves for all floating-point weights.
void make_leaves(CausalState& state);

/// Registers a parameter under a dotted name, with one module per part.
void add_parameter(CausalLMImpl& root, CausalState& state, const std::string& name,
                   const at::Tensor& leaf);

}  // namespace anyaccel::llm
