// Tests transformer layers from C++ through the loaded op.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"
#include "anyaccel/ops/transformer.h"

namespace anyaccel {
namespace {

using namespace ops;
using testing::HasSubstr;

const TransformerConfig small{.hidden_size = 32,
                              .intermediate_size = 48,
                              .heads = 4,
                              .attn_dropout_ratio = 0.2,
                              .hidden_dropout_ratio = 0.2,
                              .num_hidden_layers = 2,
                              .initializer_range = 0.2,
                              .pre_layer_norm = false,
                              .gelu_approximate = "none"};

/// A BERT layer implemented with torch ops.
at::Tensor plain(TransformerLayer& layer, const at::Tensor& x) {
  const auto p = [&](const char* name) { return layer.parameter(name); };
  const std::int64_t batch = x.size(0), length = x.size(1), hidden = x.size(2),
                     heads = layer.config().heads;
  const auto parts =
      at::linear(x, p("attn_qkvw"), p("attn_qkvb")).view({batch, length, 3, heads, hidden / heads});
  const auto part = [&](std::int64_t i) { return parts.select(2, i).transpose(1, 2); };
  const auto seen = at::scaled_dot_product_attention(part(0), part(1), part(2))
                        .transpose(1, 2)
                        .reshape(x.sizes());
  const auto norm = [&](const at::Tensor& at, const char* weight, const char* bias) {
    return at::layer_norm(at, {hidden}, p(weight), p(bias), layer.config().layer_norm_eps);
  };
  const auto middle = norm(x + at::linear(seen, p("attn_ow"), p("attn_ob")), "attn_nw", "attn_nb");
  const auto inner = at::gelu(at::linear(middle, p("inter_w"), p("inter_b")));
  return norm(middle + at::linear(inner, p("output_w"), p("output_b")), "norm_w", "norm_b");
}

// Fails if options or parameters are swapped, or gradients are missing.
TEST(TransformerLayer, MatchesAPlainLayer) {
  TransformerLayer layer(small);
  layer.eval();
  const auto x = at::randn({2, 9, 32}).requires_grad_();
  const auto out = layer.forward(x);
  EXPECT_TRUE(at::allclose(out, plain(layer, x), 1e-4, 1e-5));
  out.square().sum().backward();
  EXPECT_TRUE(x.grad().defined());
  for (const auto& [name, tensor] : layer.named_parameters())
    EXPECT_TRUE(tensor.grad().defined()) << name;
}

// Fails if dropout depends on anything but the seed, or two calls drop the same elements.
// Evaluation must not drop any elements.
TEST(TransformerLayer, DropoutFollowsTheSeed) {
  auto config = small;
  config.seed = 4;
  TransformerLayer one(config), other(config);
  for (const auto& [name, tensor] : one.named_parameters())
    other.parameter(name).detach().copy_(tensor.detach());
  const auto x = at::randn({2, 9, 32});
  const auto first = one.forward(x);
  EXPECT_TRUE(at::equal(first, other.forward(x)));
  EXPECT_FALSE(at::equal(first, one.forward(x)));
  one.eval();
  EXPECT_TRUE(at::equal(one.forward(x), one.forward(x)));
}

// Fails if weights of a Hugging Face BertLayer are loaded into the wrong parameters, or an
// incomplete map of weights changes the layer.
TEST(TransformerLayer, LoadsHuggingFaceWeights) {
  TransformerLayer layer(small);
  std::map<std::string, at::Tensor> weights;
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    weights["layer.3." + name] = at::randn(sizes);
  };
  for (const char* part : {"query", "key", "value"}) {
    add(std::string("attention.self.") + part + ".weight", {32, 32});
    add(std::string("attention.self.") + part + ".bias", {32});
  }
  add("attention.output.dense.weight", {32, 32});
  add("attention.output.dense.bias", {32});
  add("intermediate.dense.weight", {48, 32});
  add("intermediate.dense.bias", {48});
  add("output.dense.weight", {32, 48});
  for (const char* name : {"attention.output.LayerNorm.weight", "attention.output.LayerNorm.bias",
                           "output.dense.bias", "output.LayerNorm.weight"})
    add(name, {32});
  const auto before = layer.parameter("attn_ow").detach().clone();
  EXPECT_THROW(layer.load_hugging_face(weights, "layer.3."), Error);
  EXPECT_TRUE(at::equal(before, layer.parameter("attn_ow")));
  add("output.LayerNorm.bias", {32});
  layer.load_hugging_face(weights, "layer.3.");
  EXPECT_TRUE(at::equal(layer.parameter("attn_qkvw").narrow(0, 32, 32),
                        weights["layer.3.attention.self.key.weight"]));
  EXPECT_TRUE(at::equal(layer.parameter("norm_w"), weights["layer.3.output.LayerNorm.weight"]));
  EXPECT_TRUE(at::equal(layer.parameter("inter_b"), weights["layer.3.intermediate.dense.bias"]));
}

// Fails if an invalid argument is accepted, or the error does not have the op's message.
TEST(TransformerLayer, Errors) {
  auto config = small;
  config.heads = 5;
  EXPECT_THROW(TransformerLayer{config}, Error);
  TransformerLayer layer(small);
  EXPECT_THROW(layer.parameter("bias"), Error);
  EXPECT_THROW(layer.forward({}), Error);
  try {
    layer.forward(at::randn({2, 3, 36}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("attn_qkvw has the wrong shape"));
  }
}

// Fails if stochastic mode changes the result.
TEST(TransformerLayer, StochasticMode) {
  auto config = small;
  config.stochastic_mode = true;
  TransformerLayer layer(config, at::kDouble);
  layer.eval();
  const auto x = at::randn({1, 5, 32}, at::TensorOptions(at::kDouble));
  EXPECT_TRUE(at::allclose(layer.forward(x), plain(layer, x)));
}

}  // namespace
}  // namespace anyaccel
