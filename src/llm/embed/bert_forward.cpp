#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "llm/embed/bert.h"
#include "ops/support/op_call.h"

namespace anyaccel::llm {

namespace {

/// More tokens than these are as fast in general products.
constexpr std::int64_t most_op_rows = 64;

using T = const at::Tensor&;
using LayerOp = at::Tensor(T, const std::optional<at::Tensor>&, T, T, T, T, T, T, T, T, T, T, T, T, std::int64_t,
                           double, double, double, std::int64_t, bool, bool, bool, bool, bool, c10::string_view);
constexpr const char* op_builder = "TransformerBuilder";

const c10::TypedOperatorHandle<LayerOp>& layer_op() {
  static const auto op = ops::load_op<LayerOp>(op_builder, "transformer_layer");
  return op;
}

at::Tensor activate(const at::Tensor& x, BertActivation activation) {
  switch (activation) {
    case BertActivation::gelu: return at::gelu(x, "none");
    case BertActivation::gelu_tanh: return at::gelu(x, "tanh");
    case BertActivation::relu: break;
  }
  return at::relu(x);
}

/// A pass over the tokens of a batch, one row each: only attention sees the padding.
class Pass {
 public:
  Pass(const BertWeights& weights, const BertConfig& config, const BertBatch& batch)
      : weights_(weights), config_(config), batch_(batch) {}

  at::Tensor run() const {
    at::Tensor x = at::embedding(weights_.words, batch_.ids)
                       .add_(weights_.types.select(0, 0))
                       .add_(at::embedding(weights_.positions, batch_.positions));
    x = norm(x, weights_.norm, weights_.norm_bias);
    const bool by_op = weights_.layer_op && !batch_.padding && x.size(0) <= most_op_rows;
    for (const BertLayer& layer : weights_.layers) x = by_op ? op_layer(layer, x) : plain_layer(layer, x);
    return padded(x).view({batch_.texts, batch_.time, config_.hidden_size});
  }

 private:
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    return at::layer_norm(x, {config_.hidden_size}, weight, bias, config_.layer_norm_eps);
  }

  /// Rows of all places; in the padding there is some token's.
  at::Tensor padded(const at::Tensor& rows) const {
    return batch_.padding ? rows.index_select(0, batch_.padding->rows) : rows;
  }

  at::Tensor attention(const BertLayer& layer, const at::Tensor& x) const {
    const std::int64_t hidden = config_.hidden_size, heads = config_.num_heads;
    const at::Tensor qkv = padded(at::linear(x, layer.qkv, layer.qkv_bias))
                               .view({batch_.texts, batch_.time, 3, heads, hidden / heads})
                               .permute({2, 0, 3, 1, 4});
    const auto mask =
        batch_.padding ? std::optional(batch_.padding->counted.view({batch_.texts, 1, 1, batch_.time})) : std::nullopt;
    at::Tensor mixed = at::scaled_dot_product_attention(qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2), mask)
                           .transpose(1, 2)
                           .reshape({batch_.texts * batch_.time, hidden});
    if (batch_.padding) mixed = mixed.index_select(0, batch_.padding->places);
    return at::linear(mixed, layer.output, layer.output_bias);
  }

  at::Tensor plain_layer(const BertLayer& layer, const at::Tensor& from) const {
    const at::Tensor x = norm(attention(layer, from).add_(from), layer.attention_norm, layer.attention_norm_bias);
    const at::Tensor inner = activate(at::linear(x, layer.inner, layer.inner_bias), config_.activation);
    return norm(at::linear(inner, layer.down, layer.down_bias).add_(x), layer.norm, layer.norm_bias);
  }

  at::Tensor op_layer(const BertLayer& layer, const at::Tensor& x) const {
    return layer_op()
        .call(x.view({batch_.texts, batch_.time, config_.hidden_size}), std::nullopt, layer.qkv, layer.qkv_bias,
              layer.output, layer.output_bias, layer.attention_norm, layer.attention_norm_bias, layer.inner,
              layer.inner_bias, layer.down, layer.down_bias, layer.norm, layer.norm_bias, config_.num_heads, 0, 0,
              config_.layer_norm_eps, 0, false, false, false, false, false,
              config_.activation == BertActivation::gelu ? "none" : "tanh")
        .view({x.size(0), config_.hidden_size});
  }

  const BertWeights& weights_;
  const BertConfig& config_;
  const BertBatch& batch_;
};

}  // namespace

bool has_layer_op(const BertWeights& weights, const BertConfig& config) {
  return weights.norm.is_cpu() && weights.norm.scalar_type() == c10::kFloat &&
         config.activation != BertActivation::relu && ops::has_op(op_builder);
}

at::Tensor bert_forward(const BertWeights& weights, const BertConfig& config, const BertBatch& batch) {
  return Pass(weights, config, batch).run();
}

}  // namespace anyaccel::llm
