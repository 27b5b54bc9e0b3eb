// Tests the layers through the torch::nn::Module interface.
#include "anyaccel/nn.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/serialize.h>

#include <sstream>

#include "anyaccel/error.h"
#include "anyaccel/optim.h"

namespace anyaccel::nn {
namespace {

const ops::TransformerConfig small{
    .hidden_size = 32, .heads = 4, .attn_dropout_ratio = 0.3, .initializer_range = 0.2};

struct Net : torch::nn::Module {
  TransformerLayer layer = register_module("layer", TransformerLayer(small));
};

// Fails if the module does not share its parameters with the layer. Training, moving and loading
// the module would then have no effect.
TEST(TransformerLayerModule, SharesParametersWithTheLayer) {
  Net net;
  EXPECT_EQ(net.parameters().size(), 12U);
  EXPECT_TRUE(net.named_parameters().contains("layer.attn_qkvw"));
  net.eval();
  const at::Tensor x = at::randn({2, 5, 32});
  const at::Tensor before = net.layer->forward(x);
  net.layer->forward(x).square().sum().backward();
  optim::CPUAdam optimizer(net.parameters(), optim::AdamOptions(1e-2));
  optimizer.step();
  EXPECT_FALSE(at::allclose(net.layer->forward(x), before));
  net.to(at::kDouble);
  EXPECT_EQ(net.layer->forward(x.to(at::kDouble)).scalar_type(), at::kDouble);
}

// Fails if train() and eval() of the parent module do not switch dropout on and off.
TEST(TransformerLayerModule, FollowsTheTrainingModeOfItsParent) {
  Net net;
  const at::Tensor x = at::randn({2, 5, 32});
  net.eval();
  EXPECT_TRUE(at::equal(net.layer->forward(x), net.layer->forward(x)));
  net.train();
  EXPECT_FALSE(at::equal(net.layer->forward(x), net.layer->forward(x)));
}

// Fails if a clone shares parameters with the original, or a loaded module differs from the saved
// one.
TEST(TransformerLayerModule, CloneSaveLoad) {
  TransformerLayer layer(small), other(small);
  layer->eval();
  other->eval();
  const at::Tensor x = at::randn({1, 3, 32});
  const at::Tensor want = layer->forward(x);
  const auto copy = std::dynamic_pointer_cast<TransformerLayerImpl>(layer->clone());
  copy->eval();
  EXPECT_TRUE(at::equal(copy->forward(x), want));
  EXPECT_FALSE(at::equal(other->forward(x), want));
  std::stringstream file;
  torch::save(layer, file);
  torch::load(other, file);
  EXPECT_TRUE(at::equal(other->forward(x), want));
  {
    const at::NoGradGuard no_grad;
    layer->layer().parameter("norm_w").add_(1);
  }
  EXPECT_TRUE(at::equal(copy->forward(x), want));
}

// Fails if the module's arguments do not reach the attention, or a parent cannot register, clone or
// move the module.
TEST(SparseSelfAttentionModule, MatchesTheOp) {
  struct Block : torch::nn::Module {
    SparseSelfAttention attention = register_module(
        "attention", SparseSelfAttention(std::make_shared<ops::LocalSlidingWindowSparsityConfig>(2),
                                         "mul", "add", /*length=*/64));
  };
  Block block;
  block.to(at::kDouble);
  EXPECT_TRUE(block.parameters().empty());
  const at::Tensor q = at::randn({1, 2, 64, 8}), keys_seen = at::ones({1, 64});
  keys_seen.narrow(1, 0, 5).zero_();
  const ops::SparseSelfAttention reference(
      std::make_shared<ops::LocalSlidingWindowSparsityConfig>(2), "mul", "add", 64);
  const at::Tensor want = reference.forward(q, q, q, {}, keys_seen);
  EXPECT_TRUE(at::equal(block.attention->forward(q, q, q, {}, keys_seen), want));
  const auto copy = std::dynamic_pointer_cast<SparseSelfAttentionImpl>(block.attention->clone());
  EXPECT_TRUE(at::equal(copy->forward(q, q, q, {}, keys_seen), want));
  EXPECT_THROW(copy->forward(at::randn({1, 2, 80, 8}), q, q), Error);
}

}  // namespace
}  // namespace anyaccel::nn
