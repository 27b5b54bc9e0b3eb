// Layers from `anyaccel::ops` as `torch::nn::Module` classes. They can be registered in other
// modules, moved, cloned, saved and loaded. Link `anyaccel::ops`. This header is separate because
// LibTorch's module headers are slow to compile.
//
//     struct Net : torch::nn::Module {
//       anyaccel::nn::TransformerLayer layer =
//           register_module("layer", anyaccel::nn::TransformerLayer(config));
//     };
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "anyaccel/export.h"
#include "anyaccel/ops/sparse_attention.h"
#include "anyaccel/ops/transformer.h"

namespace anyaccel::nn {

/// ops::TransformerLayer as a module, with the same parameters, parameter names and errors.
class ANYACCEL_API TransformerLayerImpl : public torch::nn::Cloneable<TransformerLayerImpl> {
 public:
  /// Create a layer with random parameters. Throws the same errors as ops::TransformerLayer.
  explicit TransformerLayerImpl(ops::TransformerConfig config, at::ScalarType dtype = at::kFloat)
      : config_(std::move(config)), dtype_(dtype) {
    create();
  }

  /// Reinitialize the parameters.
  void reset() override { create(); }

  /// Apply the layer; see ops::TransformerLayer::forward(). Input and result are [batch, length,
  /// hidden_size]. Dropout is applied only in training mode.
  at::Tensor forward(const at::Tensor& hidden_states, const at::Tensor& attention_mask = {}) {
    layer_->train(is_training());
    return layer_->forward(hidden_states, attention_mask);
  }

  void pretty_print(std::ostream& stream) const override {
    stream << "anyaccel::nn::TransformerLayer(hidden_size=" << config_.hidden_size
           << ", heads=" << config_.heads << ")";
  }

  const ops::TransformerConfig& config() const noexcept { return layer_->config(); }
  /// The underlying layer. It shares this module's parameters.
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

/// ops::SparseSelfAttention as a module, with the same errors. It has no parameters. Its layout is
/// not saved, because the config determines it.
class ANYACCEL_API SparseSelfAttentionImpl : public torch::nn::Cloneable<SparseSelfAttentionImpl> {
 public:
  /// Create the layout; the arguments are those of ops::SparseSelfAttention.
  explicit SparseSelfAttentionImpl(std::shared_ptr<const ops::SparsityConfig> config,
                                   const std::string& key_padding_mask_mode = "add",
                                   const std::string& attn_mask_mode = "mul",
                                   std::int64_t max_seq_length = 2048)
      : attention_(std::move(config), key_padding_mask_mode, attn_mask_mode, max_seq_length) {}

  void reset() override {}

  /// Compute attention; see ops::SparseSelfAttention::forward(). `query`, `key`, `value` and the
  /// result are [batch, heads, length, head dim]. Pass undefined tensors to omit the relative
  /// position bias and the masks.
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& rpe = {}, const at::Tensor& key_padding_mask = {},
                     const at::Tensor& attn_mask = {}) const {
    return attention_.forward(query, key, value, rpe, key_padding_mask, attn_mask);
  }

  void pretty_print(std::ostream& stream) const override {
    stream << "anyaccel::nn::SparseSelfAttention()";
  }

 private:
  ops::SparseSelfAttention attention_;
};

TORCH_MODULE(SparseSelfAttention);

}  // namespace anyaccel::nn
