// A complete training step in a graph: forward, backward, gradient clipping, optimizer and
// learning-rate schedule.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "anyaccel/llm/adamw.h"
#include "backends/cpu/graph/graph.h"

namespace anyaccel::backends::cpu {
namespace {

using at::Tensor;

constexpr int kSteps = 200;

// A model's parameters and its loss function.
struct Model {
  std::vector<Tensor> parameters;
  std::function<Tensor(const std::vector<Tensor>& parameters, const Tensor& x, const Tensor& y)>
      loss;
};

Tensor parameter(at::IntArrayRef shape) {
  return at::randn(shape).mul_(0.2).set_requires_grad(true);
}

void seed() {
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(1);
}

Model mlp() {
  return {{parameter({32, 8}), parameter({32}), parameter({1, 32})}, [](auto& p, auto& x, auto& y) {
            return at::mse_loss(at::linear(at::linear(x, p[0], p[1]).tanh(), p[2]), y);
          }};
}

// Embedding, RMS norm, causal attention, layer norm, gated feed-forward network, and softmax
// cross-entropy with tied weights.
Model transformer(double dropout) {
  constexpr int kWidth = 16, kHeads = 2;
  Model model;
  model.parameters = {parameter({11, kWidth}),
                      parameter({kWidth}),
                      parameter({3 * kWidth, kWidth}),
                      parameter({kWidth, kWidth}),
                      parameter({kWidth}),
                      parameter({kWidth}),
                      parameter({4 * kWidth, kWidth}),
                      parameter({kWidth, 2 * kWidth})};
  model.loss = [dropout](auto& p, auto& x, auto& y) {
    const auto batch = x.size(0), length = x.size(1);
    auto h = at::embedding(p[0], x);
    const auto qkv = at::linear(at::rms_norm(h, {kWidth}, p[1], 1e-5), p[2])
                         .view({batch, length, 3, kHeads, kWidth / kHeads})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
    const auto mixed =
        at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, /*is_causal=*/true);
    h = h + at::linear(mixed.transpose(1, 2).reshape({batch, length, kWidth}), p[3]);
    const auto parts = at::linear(at::layer_norm(h, {kWidth}, p[4], p[5]), p[6]).chunk(2, -1);
    h = h + at::dropout(at::linear(at::silu(parts[0]) * at::gelu(parts[1]), p[7]), dropout, true);
    return at::cross_entropy_loss(at::linear(h, p[0]).view({batch * length, -1}), y.view(-1));
  };
  return model;
}

double learning_rate(int step) {
  return step < 20 ? 1e-2 * (step + 1) / 20
                   : 1e-3 + 9e-3 * 0.5 * (1 + std::cos(3.14159 * (step - 20) / 180));
}

// Trains `model` from a fixed seed, optionally through a graph. Returns the losses and updates the
// model's parameters in place.
std::vector<float> train(Model model, bool graphed, const Tensor& xs, const Tensor& ys,
                         bool autocast) {
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(3);
  llm::AdamW optimizer(model.parameters, {.lr = 0.5, .weight_decay = 0.1});
  optimizer.zero_grad();
  const auto x = xs[0].clone(), y = ys[0].clone();
  Tensor loss;
  const auto step = [&] {
    optimizer.zero_grad();
    if (autocast) at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, autocast);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    auto result = model.loss(model.parameters, x, y);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    if (autocast && at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    result.backward();
    optimizer.clip_grad_norm(1.0);
    optimizer.step();
    loss = result.detach();
  };
  auto graph = make_cpu_graph();
  std::vector<float> losses;
  for (int i = 0; i < kSteps; ++i) {
    x.copy_(xs[i]);
    y.copy_(ys[i]);
    optimizer.set_lr(learning_rate(i));
    if (!graphed) {
      step();
    } else if (i == 0) {
      graph->capture_begin(std::nullopt);  // the capture is the first step
      step();
      graph->capture_end();
    } else {
      graph->replay();
    }
    losses.push_back(loss.item<float>());
  }
  return losses;
}

void compare(const Model& start, const Tensor& xs, const Tensor& ys, bool autocast,
             double falls_to) {
  at::set_num_threads(1);  // these ops are small; other tests use several threads
  std::vector<Tensor> finals[2];
  std::vector<float> losses[2];
  for (const bool graphed : {false, true}) {
    Model model = start;
    for (auto& p : model.parameters) p = p.detach().clone().set_requires_grad(true);
    losses[graphed] = train(model, graphed, xs, ys, autocast);
    finals[graphed] = model.parameters;
  }
  for (int i = 0; i < kSteps; ++i) ASSERT_EQ(losses[0][i], losses[1][i]) << "step " << i;
  for (std::size_t i = 0; i < finals[0].size(); ++i)
    EXPECT_TRUE(finals[0][i].equal(finals[1][i])) << "parameter " << i;
  const auto mean = [&](int begin) {
    return std::accumulate(&losses[1][begin], &losses[1][begin] + 20, 0.0f) / 20;
  };
  EXPECT_LT(mean(kSteps - 20), falls_to * mean(0))
      << "the model did not learn, so equal losses prove little";
}

Tensor tokens() {
  // Each token is a function of the previous one, so that the model can learn the sequence.
  auto x = at::randint(0, 11, {kSteps, 4, 1}, at::kLong);
  std::vector<Tensor> columns = {x};
  for (int i = 0; i < 6; ++i) columns.push_back(columns.back().mul(3).add(1).remainder(11));
  return at::cat(columns, 2);
}

// Fails if the graph omits a part of the training step, or replays a captured value that should
// change, such as the learning rate.
TEST(GraphTraining, MlpEqualsEagerBitForBit) {
  seed();
  const auto xs = at::randn({kSteps, 16, 8});
  compare(mlp(), xs, xs.mean(2, true), false, 0.5);
}

// Like the test above, with the ops of a language model.
TEST(GraphTraining, TransformerEqualsEagerBitForBit) {
  seed();
  const auto all = tokens();
  compare(transformer(0), all.slice(2, 0, 6), all.slice(2, 1).contiguous(), false, 0.5);
}

// Like the test above, with dropout and bf16.
TEST(GraphTraining, Bf16WithDropoutEqualsEagerBitForBit) {
  seed();
  const auto all = tokens();
  compare(transformer(0.1), all.slice(2, 0, 6), all.slice(2, 1).contiguous(), true, 0.6);
}

}  // namespace
}  // namespace anyaccel::backends::cpu
