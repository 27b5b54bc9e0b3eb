// Tests the optimizers through the torch::optim::Optimizer interface, mostly against LibTorch's
// optimizers.
#include "anyaccel/optim.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/serialize.h>

#include <sstream>

#include "unit/support/expect_error.h"
#include "unit/support/optimizer_params.h"

namespace anyaccel::optim {
namespace {

using tests::expect_close;
using tests::make_params;
using tests::Params;

/// Performs `steps` steps with gradients that depend on the parameters.
void train(torch::optim::Optimizer& optimizer, const Params& params, int steps) {
  for (int i = 0; i < steps; ++i) {
    for (const at::Tensor& p : params) p.mutable_grad() = (p.detach() * 0.3 + 0.1 * (i + 1)).cos();
    optimizer.step();
  }
}

// Fails if options are passed to the op in the wrong order, or one step counts as two.
TEST(Optimizers, AdamMatchesLibTorch) {
  const Params ours = make_params(), fused = make_params(), theirs = make_params();
  CPUAdam cpu(ours, AdamOptions(1e-2).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.05));
  FusedAdam on_device(fused, AdamOptions(1e-2).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.05));
  torch::optim::AdamW reference(
      theirs, torch::optim::AdamWOptions(1e-2).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.05));
  train(cpu, ours, 5);
  train(on_device, fused, 5);
  train(reference, theirs, 5);
  expect_close(ours, theirs);
  expect_close(fused, theirs);
}

// Fails if L2 decay is treated as decoupled weight decay.
TEST(Optimizers, AdamWithL2Decay) {
  const Params ours = make_params(), theirs = make_params();
  CPUAdam cpu(ours, AdamOptions(1e-2).weight_decay(0.1).adamw_mode(false));
  torch::optim::Adam reference(theirs, torch::optim::AdamOptions(1e-2).weight_decay(0.1));
  train(cpu, ours, 4);
  train(reference, theirs, 4);
  expect_close(ours, theirs);
}

TEST(Optimizers, AdagradMatchesLibTorch) {
  const Params ours = make_params(), theirs = make_params();
  CPUAdagrad cpu(ours, AdagradOptions(0.05).weight_decay(0.01));
  torch::optim::Adagrad reference(theirs, torch::optim::AdagradOptions(0.05).weight_decay(0.01));
  train(cpu, ours, 4);
  train(reference, theirs, 4);
  expect_close(ours, theirs);
}

// Fails if CPULion and FusedLion differ, or the first step is not -lr * sign(gradient) plus weight
// decay. LibTorch has no Lion to compare with.
TEST(Optimizers, Lion) {
  const Params ours = make_params(), fused = make_params(), begin = make_params();
  CPULion cpu(ours, LionOptions(1e-2).weight_decay(0.1));
  FusedLion on_device(fused, LionOptions(1e-2).weight_decay(0.1));
  train(cpu, ours, 1);
  const at::Tensor sign = (begin[0].detach() * 0.3 + 0.1).cos().sign();
  EXPECT_TRUE(at::allclose(ours[0], begin[0] * (1 - 1e-2 * 0.1) - 1e-2 * sign, 1e-5, 1e-6));
  train(on_device, fused, 1);
  train(cpu, ours, 3);
  train(on_device, fused, 3);
  expect_close(fused, ours);
}

// Fails if the trust ratio is not clamped. LAMB equals Adam if the trust ratio is 1 and there is no
// weight decay.
TEST(Optimizers, LambWithTrustRatioOne) {
  const Params ours = make_params(), theirs = make_params();
  FusedLamb lamb(ours, LambOptions(1e-2).max_coeff(1).min_coeff(1));
  torch::optim::Adam reference(theirs, torch::optim::AdamOptions(1e-2));
  train(lamb, ours, 4);
  train(reference, theirs, 4);
  expect_close(ours, theirs);
}

// Fails if a group does not keep its own options, or a scheduler does not change them. LibTorch
// merges default options into groups only for its own optimizers.
TEST(Optimizers, GroupsAndSchedulers) {
  const Params ours = make_params(), theirs = make_params();
  ParamGroups groups, their_groups;
  groups.emplace_back(Params{ours[0]});
  groups.emplace_back(Params{ours[1]},
                      std::make_unique<AdamOptions>(AdamOptions(1e-1).weight_decay(0.3)));
  their_groups.emplace_back(Params{theirs[0]});
  their_groups.emplace_back(Params{theirs[1]},
                            std::make_unique<torch::optim::AdamWOptions>(
                                torch::optim::AdamWOptions(1e-1).weight_decay(0.3)));
  CPUAdam cpu(groups, AdamOptions(1e-2).weight_decay(0.01));
  torch::optim::AdamW reference(their_groups, torch::optim::AdamWOptions(1e-2).weight_decay(0.01));
  EXPECT_DOUBLE_EQ(cpu.param_groups()[1].options().get_lr(), 1e-1);
  torch::optim::StepLR scheduler(cpu, 2, 0.5), their_scheduler(reference, 2, 0.5);
  for (int i = 0; i < 5; ++i) {
    train(cpu, ours, 1);
    train(reference, theirs, 1);
    scheduler.step();
    their_scheduler.step();
  }
  EXPECT_DOUBLE_EQ(cpu.param_groups()[0].options().get_lr(), 1e-2 / 4);
  expect_close(ours, theirs);
}

// Fails if saving and loading loses a moment, step count or option. A loaded optimizer must
// continue with bitwise equal results.
TEST(Optimizers, SaveAndLoad) {
  const Params whole = make_params(), halves = make_params();
  CPUAdam one(whole, AdamOptions(1e-2).weight_decay(0.05)),
      first(halves, AdamOptions(1e-2).weight_decay(0.05));
  train(one, whole, 4);
  train(first, halves, 2);
  std::stringstream file;
  torch::save(first, file);
  CPUAdam second(halves, AdamOptions(7));
  torch::load(second, file);
  for (int i = 2; i < 4; ++i) {
    for (const at::Tensor& p : halves) p.mutable_grad() = (p.detach() * 0.3 + 0.1 * (i + 1)).cos();
    second.step();
  }
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::equal(whole[i], halves[i])) << i;
}

// Fails if a parameter without a gradient is updated or gets optimizer state, or the closure runs
// with gradients disabled.
TEST(Optimizers, ClosureAndMissingGradients) {
  const Params params = make_params();
  CPUAdam cpu(params, AdamOptions(1e-2));
  const at::Tensor before = params[1].detach().clone();
  const at::Tensor loss = cpu.step([&] {
    cpu.zero_grad();
    at::Tensor out = params[0].square().sum();
    out.backward();
    return out;
  });
  EXPECT_TRUE(loss.requires_grad());
  EXPECT_TRUE(at::equal(params[1], before));
  EXPECT_EQ(cpu.state().size(), 1U);
}

// Fails if an error from the op has the wrong code, or a failed step is counted.
TEST(Optimizers, Errors) {
  const Params params = make_params();
  EXPECT_ERROR(CPUAdam(params, AdamOptions(1e-2).betas({1.5, 0.9})), invalid_argument, "beta");
  ParamGroups groups;
  groups.emplace_back(params, std::make_unique<AdamOptions>(AdamOptions(1e-2).adamw_mode(false)));
  CPUAdam mixed(groups, AdamOptions(1e-2));
  EXPECT_ERROR(train(mixed, params, 1), invalid_argument, "adamw_mode");
  for (const auto& [key, state] : mixed.state())
    EXPECT_EQ(static_cast<ParamState&>(*state).step(), 0);
}

}  // namespace
}  // namespace anyaccel::optim
