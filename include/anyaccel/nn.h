// Layers of the ops as `torch::nn::Module`. They can be registered in other modules, moved, cloned, saved and loaded.
// Link `anyaccel::ops`. They have their own header because LibTorch's module headers are slow to compile.
//
//   struct Net : torch::nn::Module {
//     anyaccel::nn::TransformerLayer layer = register_module("layer", anyaccel::nn::TransformerLayer(config));
//   };
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <ostream>
#include <utility>

#include "anyaccel/export.h"
#include "anyaccel/ops/transformer.h"

namespace anyaccel::nn {

/// ops::TransformerLayer as a module, with the same parameters, parameter names and errors.
class ANYACCEL_API TransformerLayerImpl : public torch::nn::Cloneable<TransformerLayerImpl> {
 public:
  explicit TransformerLayerImpl(ops::TransformerConfig config, at::ScalarType dtype = at::kFloat)
      : config_(std::move(config)), dtype_(dtype) {
    create();
  }

  /// Initializes the parameters again.
  void reset() override { create(); }

  /// See ops::TransformerLayer::forward(). Input and result are [batch, length, hidden_size]. Dropout is applied only
  /// in training mode.
  at::Tensor forward(const at::Tensor& hidden_states, const at::Tensor& attention_mask = {}) {
    layer_->train(is_training());
    return layer_->forward(hidden_states, attention_mask);
  }

  void pretty_print(std::ostream& stream) const override {
    stream << "anyaccel::nn::TransformerLayer(hidden_size=" << config_.hidden_size << ", heads=" << config_.heads
           << ")";
  }

  const ops::TransformerConfig& config() const noexcept { return layer_->config(); }
  /// The underlying layer, which has the same parameters.
  ops::TransformerLayer& layer() noexcept { return *layer_; }

 private:
  void create() {
    layer_.emplace(config_, dtype_);
    for (const auto& [name, tensor] : layer_->named_parameters()) register_parameter(name, tensor);
  }

  ops::TransformerConfig config_;
  at::ScalarType dtype_;
  std::optional<ops::TransformerLayer> layer_;
};

TORCH_MODULE(TransformerLayer);

}  // namespace anyaccel::nn
