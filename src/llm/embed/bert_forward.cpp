#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "anyaccel/ops/call.h"
#include "llm/embed/bert.h"
#include "llm/model/activation.h"
#include "llm/support/large_pages.h"

namespace anyaccel::llm {

namespace {

// The library of the decoder's ops also contains the encoder's ops.
constexpr const char* op_builder = "DecoderInferenceBuilder";

/// A forward pass over a batch with one row per token. Only attention uses padded arrays.
class Pass {
 public:
  Pass(const BertWeights& weights, const BertConfig& config, const BertBatch& batch)
      : weights_(weights), config_(config), batch_(batch) {}

  at::Tensor run() const {
    at::Tensor x = at::embedding(weights_.words, batch_.ids)
                       .add_(weights_.types.select(0, 0))
                       .add_(at::embedding(weights_.positions, batch_.positions));
    x = norm(x, weights_.norm, weights_.norm_bias);
    if (weights_.packed.empty()) {
      for (const BertLayer& layer : weights_.layers) x = plain_layer(layer, x);
    } else {
      using Encode = void(const at::Tensor&, at::TensorList, at::IntArrayRef, std::int64_t,
                          std::int64_t, double);
      static const auto op = ops::load_op<Encode>(op_builder, "inference_encode");
      op.call(x, weights_.packed, batch_.lengths, config_.num_heads,
              op_activation(config_.activation), config_.layer_norm_eps);
    }
    return padded(x).view({batch_.texts, batch_.time, config_.hidden_size});
  }

 private:
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    return at::layer_norm(x, {config_.hidden_size}, weight, bias, config_.layer_norm_eps);
  }

  /// Expands packed rows to the padded array. Padding contains copies of arbitrary rows.
  at::Tensor padded(const at::Tensor& rows) const {
    return batch_.padding ? rows.index_select(0, batch_.padding->rows) : rows;
  }

  at::Tensor attention(const BertLayer& layer, const at::Tensor& x) const {
    const std::int64_t hidden = config_.hidden_size, heads = config_.num_heads;
    const at::Tensor qkv = padded(at::linear(x, layer.qkv, layer.qkv_bias))
                               .view({batch_.texts, batch_.time, 3, heads, hidden / heads})
                               .permute({2, 0, 3, 1, 4});
    const auto mask =
        batch_.padding
            ? std::optional(batch_.padding->counted.view({batch_.texts, 1, 1, batch_.time}))
            : std::nullopt;
    at::Tensor mixed =
        at::scaled_dot_product_attention(qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2), mask)
            .transpose(1, 2)
            .reshape({batch_.texts * batch_.time, hidden});
    if (batch_.padding) mixed = mixed.index_select(0, batch_.padding->places);
    return at::linear(mixed, layer.output, layer.output_bias);
  }

  at::Tensor plain_layer(const BertLayer& layer, const at::Tensor& from) const {
    const at::Tensor x =
        norm(attention(layer, from).add_(from), layer.attention_norm, layer.attention_norm_bias);
    const at::Tensor inner =
        activate(at::linear(x, layer.inner, layer.inner_bias), config_.activation);
    return norm(at::linear(inner, layer.down, layer.down_bias).add_(x), layer.norm,
                layer.norm_bias);
  }

  const BertWeights& weights_;
  const BertConfig& config_;
  const BertBatch& batch_;
};

}  // namespace

void pack_layers(BertWeights& weights) {
  if (!weights.norm.is_cpu() || weights.norm.scalar_type() != c10::kFloat ||
      !ops::has_op(op_builder))
    return;
  static const auto op =
      ops::load_op<void(const at::Tensor&, const at::Tensor&)>(op_builder, "inference_pack");
  constexpr std::int64_t outputs_of_panel = 64;  // inference_pack rejects other shapes
  LargePages memory;
  for (BertLayer& layer : weights.layers) {
    const auto pack = [&](at::Tensor& weight) {
      const std::int64_t panels = (weight.size(0) + outputs_of_panel - 1) / outputs_of_panel;
      const at::Tensor packed =
          memory.empty({panels, weight.size(1), outputs_of_panel}, c10::kFloat);
      op.call(weight, packed);
      weight = at::Tensor();
      weights.packed.push_back(packed);
    };
    const auto keep = [&](const at::Tensor& one, const at::Tensor& other) {
      weights.packed.insert(weights.packed.end(), {one, other});
    };
    pack(layer.qkv);
    weights.packed.push_back(layer.qkv_bias);
    pack(layer.output);
    weights.packed.push_back(layer.output_bias);
    keep(layer.attention_norm, layer.attention_norm_bias);
    pack(layer.inner);
    weights.packed.push_back(layer.inner_bias);
    pack(layer.down);
    weights.packed.push_back(layer.down_bias);
    keep(layer.norm, layer.norm_bias);
  }
}

at::Tensor bert_forward(const BertWeights& weights, const BertConfig& config,
                        const BertBatch& batch) {
  return Pass(weights, config, batch).run();
}

}  // namespace anyaccel::llm
