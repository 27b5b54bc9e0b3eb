// Tests of the layers as torch::nn::Module.
#include "anyaccel/nn.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/serialize.h>

#include <sstream>

#include "anyaccel/optim.h"

namespace anyaccel::nn {
namespace {

const ops::TransformerConfig small{.hidden_size = 32, .heads = 4, .attn_dropout_ratio = 0.3, .initializer_range = 0.2};

struct Net : torch::nn::Module {
  TransformerLayer layer = register_module("layer", TransformerLayer(small));
};

// Breaks when the module and the layer do not share parameters. Training, moving and loading would then have no effect.
TEST(TransformerLayerModule, ParametersAreTheLayers) {
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

// Breaks when train() and eval() of the parent module do not switch dropout.
TEST(TransformerLayerModule, TrainingModeIsTheModules) {
  Net net;
  const at::Tensor x = at::randn({2, 5, 32});
  net.eval();
  EXPECT_TRUE(at::equal(net.layer->forward(x), net.layer->forward(x)));
  net.train();
  EXPECT_FALSE(at::equal(net.layer->forward(x), net.layer->forward(x)));
}

// Breaks when a clone shares parameters with the original, or a loaded module differs from the saved one.
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

}  // namespace
}  // namespace anyaccel::nn
