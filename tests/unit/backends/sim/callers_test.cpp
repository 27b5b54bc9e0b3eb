// Tests training on a simulated device with pseudorandom faults.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "anyaccel/sim.h"
#include "backends/sim/allocator.h"
#include "backends/sim/graph.h"
#include "backends/sim/kernels.h"

namespace anyaccel::backends::sim {
namespace {

using testing::HasSubstr;

/// A small network with training data. A step changes the weights only if the whole step succeeds.
class Training {
 public:
  Training() {
    const auto device = at::TensorOptions().device(runtime().device(0));
    const auto make = [&](at::IntArrayRef sizes) {
      return at::rand(sizes).sub_(0.5).to(device).requires_grad_();
    };
    weights_ = {make({16, 8}), make({16}), make({4, 16})};
    inputs_ = at::rand({32, 8}).to(device);
    labels_ = at::randint(4, {32}).to(device);
  }
  double step() {
    for (auto& weight : weights_) weight.mutable_grad() = at::Tensor();
    const auto hidden = at::gelu(at::linear(inputs_, weights_[0], weights_[1]));
    const auto loss =
        at::cross_entropy_loss(at::linear(at::layer_norm(hidden, {16}), weights_[2]), labels_);
    loss.backward();
    std::vector<at::Tensor> next;
    const c10::AutoGradMode no_grad(false);
    for (auto& weight : weights_) next.push_back(weight - weight.grad() * 0.1);
    runtime().devices[0]->synchronize();
    for (std::size_t i = 0; i < next.size(); ++i) weights_[i].copy_(next[i]);
    const auto result = loss.item<double>();
    for (auto& weight : weights_) weight.mutable_grad() = at::Tensor();
    return result;
  }

 private:
  std::vector<at::Tensor> weights_;
  at::Tensor inputs_, labels_;
};

std::int64_t allocated() {
  return runtime().devices[0]->memory->stats().allocated_bytes[0].current;
}

/// Repeats failed steps until `steps` of them have succeeded. Returns the number of failures of
/// type `Failure`. Other exceptions propagate.
template <typename Failure>
int train(int steps, const char* message) {
  Training training;
  int failures = 0;
  double last = 0;
  const auto before = allocated();
  for (int done = 0; done < steps;) {
    try {
      last = training.step();
      ++done;
    } catch (const Failure& error) {
      ++failures;
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
  EXPECT_LT(last, 1.45);  // the loss has decreased
  EXPECT_GT(last, 0);
  try {
    runtime().devices[0]->synchronize();
  } catch (const Failure&) {
  }
  EXPECT_EQ(allocated(), before) << "failed steps leaked memory";
  return failures;
}

// Fails if running out of memory in a training step leaks tensors or prevents later steps.
TEST(SimCallers, TrainingSurvivesFailedAllocations) {
  anyaccel::sim::install({.seed = 5, .faults = "alloc%0.02"});
  int failures = 0;
  try {
    failures = train<c10::OutOfMemoryError>(60, "out of memory on device 0");
  } catch (const c10::OutOfMemoryError&) {
    GTEST_FAIL() << "this seed makes an allocation in the setup fail; choose another seed";
  }
  EXPECT_GT(failures, 5);
}

// Fails if a kernel failure in a training step leaks memory, or leaves the device unusable.
TEST(SimCallers, TrainingSurvivesFailedKernels) {
  anyaccel::sim::install({.seed = 5, .faults = "kernel%0.01"});
  EXPECT_GT(train<c10::AcceleratorError>(60, "failed on device 0"), 5);
}

// Fails if a step on a lost device hangs, crashes, or succeeds.
TEST(SimCallers, LostDeviceEndsTrainingCleanly) {
  anyaccel::sim::install({.faults = "lost@300"});
  Training training;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) training.step();
      },
      c10::AcceleratorError);
  for (int i = 0; i < 3; ++i) EXPECT_THROW(training.step(), c10::AcceleratorError);
  EXPECT_THROW(runtime().devices[0]->synchronize(), c10::AcceleratorError);
  EXPECT_EQ(at::ones({3}, at::TensorOptions().device(runtime().device(1))).sum().item<float>(), 3);
}

// Fails if a slow device changes results.
TEST(SimCallers, SlowDeviceGivesTheSameResults) {
  anyaccel::sim::install({.seed = 1, .faults = "slow=2ms%0.05/0,slow=1ms%0.05/1"});
  const auto run = [](int index) {
    auto x = at::ones({64}, at::TensorOptions().device(runtime().device(index)));
    for (int i = 0; i < 20; ++i) x = (x * 1.5).sin_();
    return x.sum().item<double>();
  };
  EXPECT_EQ(run(0), run(1));
}

// Fails if the pattern of failures is not determined by the seed.
TEST(SimCallers, SeedDeterminesFailures) {
  anyaccel::sim::install({.devices = 1, .seed = 9, .faults = "alloc%0.3"});
  const auto drawn = [](std::uint64_t seed) {
    FaultCounter counter(parse_faults("alloc%0.3"), 0, seed);
    std::string text;
    for (int i = 0; i < 40; ++i) text += counter.allocation() ? 'x' : '.';
    return text;
  };
  std::string seen;
  for (int i = 0; i < 40; ++i) {
    try {
      at::empty({4}, at::TensorOptions().device(runtime().device(0)));
      seen += '.';
    } catch (const c10::OutOfMemoryError&) {
      seen += 'x';
    }
  }
  EXPECT_EQ(seen, drawn(9));
  EXPECT_NE(seen, drawn(8));
}

// Fails if SIM_LATENCY does not delay kernels.
TEST(SimLatency, DelaysEachKernel) {
  anyaccel::sim::install({.latency_us = 3000});
  auto x = at::zeros({4}, at::TensorOptions().device(runtime().device(0)));
  runtime().devices[0]->synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) x.add_(1);
  runtime().devices[0]->synchronize();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(15));
}

// Fails if a graph fault occurs during capture instead of replay, or breaks later replays.
TEST(SimCallers, ReplayAfterAFailedReplay) {
  anyaccel::sim::install({.faults = "kernel=graph.replay@2"});
  const c10::StreamGuard guard(to_torch(*runtime().devices[0]->streams[1]));
  auto x = at::zeros({4}, at::TensorOptions().device(runtime().device(0)));
  SimGraph graph;
  graph.capture_begin({0, 0});
  x.add_(1);
  graph.capture_end();
  graph.replay();
  EXPECT_EQ(x.sum().item<float>(), 4);
  graph.replay();
  EXPECT_THROW(runtime().devices[0]->synchronize(), c10::AcceleratorError);
  graph.replay();
  EXPECT_EQ(x.sum().item<float>(), 8);
}

}  // namespace
}  // namespace anyaccel::backends::sim
