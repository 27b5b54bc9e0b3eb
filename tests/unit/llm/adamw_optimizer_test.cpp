// Tests AdamW through the torch::optim::Optimizer interface against LibTorch's AdamW.
#include "anyaccel/llm/adamw_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/serialize.h>

#include <sstream>

#include "anyaccel/accelerator.h"
#include "unit/support/expect_error.h"
#include "unit/support/optimizer_params.h"

namespace anyaccel::llm {
namespace {

using tests::expect_close;
using tests::make_params;
using tests::Params;

using optim::AdamOptions;
using torch::optim::OptimizerParamGroup;
void set_gradients(const Params& params, int step) {
  for (const at::Tensor& p : params) p.mutable_grad() = (p.detach() * 0.3 + 0.1 * (step + 1)).cos();
}

void train(torch::optim::Optimizer& optimizer, const Params& params, int steps) {
  for (int i = 0; i < steps; ++i) {
    set_gradients(params, i);
    optimizer.step();
  }
}

/// Two groups with different learning rates, betas and weight decays, for AdamWOptimizer or
/// LibTorch's AdamW.
template <typename Options>
std::vector<OptimizerParamGroup> two_groups(const Params& params) {
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Params{params[0]},
                      std::make_unique<Options>(Options(1e-2).weight_decay(0.1)));
  groups.emplace_back(Params{params[1]},
                      std::make_unique<Options>(Options(3e-2).betas({0.8, 0.95}).weight_decay(0)));
  return groups;
}

// Fails if the options of a group do not affect its update, or a learning rate set by a scheduler
// does not reach the device.
TEST(AdamWOptimizer, MatchesLibTorch) {
  const Params ours = make_params(), theirs = make_params();
  AdamWOptimizer optimizer(two_groups<AdamOptions>(ours));
  torch::optim::AdamW reference(two_groups<torch::optim::AdamWOptions>(theirs));
  torch::optim::StepLR ours_lr(optimizer, 2, 0.1), theirs_lr(reference, 2, 0.1);
  for (int i = 0; i < 5; ++i) {
    set_gradients(ours, i);
    set_gradients(theirs, i);
    optimizer.step();
    reference.step();
    ours_lr.step();
    theirs_lr.step();
  }
  expect_close(ours, theirs);
}

// Fails if training that continues from a saved state gives different results.
TEST(AdamWOptimizer, SaveAndLoad) {
  const Params ours = make_params(), resumed = make_params();
  AdamWOptimizer optimizer(two_groups<AdamOptions>(ours)), other(two_groups<AdamOptions>(resumed));
  train(optimizer, ours, 3);
  std::stringstream file;
  torch::save(optimizer, file);
  torch::load(other, file);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < ours.size(); ++i) resumed[i].copy_(ours[i]);
  }
  train(optimizer, ours, 2);
  train(other, resumed, 2);
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(resumed[i], ours[i])) << i;
}

// Fails if step() cannot be captured, or replays use the captured learning rate. Also fails if
// replays do not increase the saved step count.
TEST(AdamWOptimizer, StepsInAGraph) {
  const Params ours = make_params(), theirs = make_params();
  AdamWOptimizer optimizer(ours, AdamOptions(1e-2).weight_decay(0.05));
  torch::optim::AdamW reference(theirs, torch::optim::AdamWOptions(1e-2).weight_decay(0.05));
  Accelerator& accelerator = get_accelerator();
  const auto step = [&](const Params& params, torch::optim::Optimizer& one, int i) {
    set_gradients(params, i);
    one.step();
  };
  step(ours, optimizer, 0);
  step(theirs, reference, 0);
  set_gradients(ours, 1);
  Params saved;
  for (const auto& p : ours) saved.push_back(p.detach().clone());
  std::stringstream before;
  torch::save(optimizer, before);
  auto graph = accelerator.create_graph();
  auto scope = accelerator.capture_to_graph(graph);
  optimizer.step();
  scope.end();
  // Restore the state, because the capture may have executed the step.
  torch::load(optimizer, before);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < ours.size(); ++i) ours[i].copy_(saved[i]);
  }
  for (int i = 1; i < 4; ++i) {
    for (std::size_t k = 0; k < ours.size(); ++k)
      ours[k].mutable_grad().copy_((ours[k].detach() * 0.3 + 0.1 * (i + 1)).cos());
    const double lr = 1e-2 / i;
    static_cast<AdamOptions&>(optimizer.param_groups()[0].options()).lr(lr);
    static_cast<torch::optim::AdamWOptions&>(reference.param_groups()[0].options()).lr(lr);
    optimizer.update_lr();
    accelerator.replay_graph(graph);
    step(theirs, reference, i);
  }
  expect_close(ours, theirs);
  std::stringstream after;
  torch::save(optimizer, after);
  const auto& state =
      static_cast<const optim::ParamState&>(*optimizer.state().at(ours[0].unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 4);
}

// Fails if options that have no effect on the update are accepted.
TEST(AdamWOptimizer, WrongOptions) {
  const Params params = make_params();
  EXPECT_ERROR(AdamWOptimizer(params, AdamOptions(1e-2).adamw_mode(false)), invalid_argument,
               "FusedAdam");
  EXPECT_ERROR(AdamWOptimizer(params, AdamOptions(1e-2).bias_correction(false)), invalid_argument,
               "bias_correction");
  EXPECT_ERROR(AdamWOptimizer(params, AdamOptions(-1)), invalid_argument, "lr is out of range");
}

}  // namespace
}  // namespace anyaccel::llm
