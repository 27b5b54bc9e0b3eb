#include "anyaccel/data_parallel.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "anyaccel/registry.h"
#include "unit/comm/ranks_on_backends.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::comm {
namespace {

using Tensors = std::vector<at::Tensor>;

/// One bucket per gradient.
constexpr DataParallelOptions kOneEach{.bucket_cap_mb = 1e-6, .first_bucket_mb = 1e-6};

void expect_all(const at::Tensor& got, double want) {
  ASSERT_TRUE(got.defined());
  const auto host = got.detach().to(at::kCPU, at::kDouble);
  EXPECT_TRUE(at::allclose(host, at::full(host.sizes(), want, host.options()), 1e-6, 0))
      << host << "\nwanted " << want;
}

/// Returns parameters of odd sizes. Every element is the rank plus one.
Tensors parameters_of(int rank, const at::TensorOptions& here) {
  Tensors out;
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{7, 5}, {3}, {1}, {129}, {2, 3, 5}})
    out.push_back(at::full(sizes, 1.0 + rank, here).set_requires_grad(true));
  return out;
}

void reset(const Tensors& parameters) {
  for (const auto& parameter : parameters) parameter.mutable_grad().reset();
}

/// Runs a backward pass in which every element of parameter i has the gradient (i + 1) * `factor`.
/// Parameters listed in `without` get no gradient.
void backward(const Tensors& parameters, double factor,
              const std::vector<std::size_t>& without = {}) {
  at::Tensor loss;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (std::find(without.begin(), without.end(), i) != without.end()) continue;
    const auto part = parameters[i].mul(factor * static_cast<double>(i + 1)).sum().to(at::kFloat);
    loss = loss.defined() ? loss.add(part) : part;
  }
  if (loss.defined()) loss.backward();
}

class DataParallelRanks : public RanksOnBackends {};

// Fails if ranks start with different weights, or a gradient is not the mean over all ranks in the
// current step.
TEST_P(DataParallelRanks, GradientsAreMeans) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    const auto parameters = parameters_of(group.rank(), here);
    DataParallel parallel(group, parameters);
    for (const auto& parameter : parameters) expect_all(parameter, 1.0);
    const double mean = (group.size() + 1) / 2.0;
    for (int step = 1; step <= 4; ++step) {
      if (step != 3) reset(parameters);
      if (step == 3)  // zeroed in place, as AdamW::zero_grad() does
        for (const auto& parameter : parameters) parameter.mutable_grad().zero_();
      backward(parameters, step * (group.rank() + 1.0));
      parallel.finish();
      EXPECT_EQ(parallel.reduced(), 0U);
      for (std::size_t i = 0; i < parameters.size(); ++i)
        expect_all(parameters[i].grad(), step * mean * static_cast<double>(i + 1));
    }
    group.barrier();
  });
}

// Fails if gradients are not views of their bucket, or buckets are not in reverse order of the
// parameters.
TEST_P(DataParallelRanks, GradientsAreViewsOfBuckets) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    auto parameters = parameters_of(0, here);
    parameters.push_back(at::full({6}, 1.0, here.dtype(at::kBFloat16)).set_requires_grad(true));
    parameters.push_back(at::full({4, 6}, 1.0, here).t().set_requires_grad(true));
    DataParallel together(group, parameters);
    ASSERT_EQ(together.buckets().size(), 2U);
    EXPECT_EQ(together.buckets()[0].parameters, std::vector<std::size_t>({5}));
    EXPECT_EQ(together.buckets()[1].parameters, std::vector<std::size_t>({6, 4, 3, 2, 1, 0}));
    EXPECT_EQ(together.buckets()[0].memory.scalar_type(), at::kBFloat16);
    backward(parameters, group.rank() + 1.0);
    together.finish();
    for (const auto& bucket : together.buckets())
      for (const auto i : bucket.parameters) {
        const auto& grad = parameters[i].grad();
        EXPECT_TRUE(grad.is_alias_of(bucket.memory));
        EXPECT_EQ(grad.sizes(), parameters[i].sizes());
        EXPECT_EQ(grad.strides(), parameters[i].strides());
        EXPECT_EQ(grad.storage_offset() * grad.element_size() % 64, 0);
        expect_all(grad, (group.size() + 1) / 2.0 * static_cast<double>(i + 1));
      }
    group.barrier();
  });
}

// Fails if gradients accumulated under no_sync() are reduced too early, lost, or counted twice.
TEST_P(DataParallelRanks, AccumulationReducesOnce) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    const auto parameters = parameters_of(0, here);
    DataParallel parallel(group, parameters, kOneEach);
    for (int step = 0; step < 2; ++step) {
      reset(parameters);
      {
        const auto quiet = parallel.no_sync();
        backward(parameters, group.rank() + 1.0);
        backward(parameters, 10.0, {1});  // parameter 1 gets a gradient only in the first pass
        EXPECT_EQ(parallel.reduced(), 0U);
        EXPECT_ERROR(parallel.finish(), invalid_state, "no_sync");
      }
      backward(parameters, 100.0, {1});
      parallel.finish();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        expect_all(parameters[i].grad(), ((i == 1 ? 0.0 : 110.0) + (group.size() + 1) / 2.0) *
                                             static_cast<double>(i + 1));
    }
    group.barrier();
  });
}

// Fails if a gradient that is missing on one rank blocks the other ranks, or does not count as zero
// in the mean. A parameter that no rank uses must not get a gradient.
TEST_P(DataParallelRanks, UnusedParameters) {
  for (const auto& options : {DataParallelOptions{}, kOneEach})
    ranks([&](ProcessGroup& group, const at::TensorOptions& here) {
      const auto parameters = parameters_of(0, here);
      DataParallel parallel(group, parameters, options);
      for (int step = 0; step < 2; ++step) {
        reset(parameters);
        backward(parameters, 1.0,
                 group.rank() == 0 ? std::vector<std::size_t>{3} : std::vector<std::size_t>{1, 3});
        parallel.finish();
        EXPECT_FALSE(parameters[3].grad().defined());
        expect_all(parameters[1].grad(), 2.0 / group.size());
        expect_all(parameters[0].grad(), 1.0);
        expect_all(parameters[4].grad(), 5.0);
      }
      // In this step, only rank 0 runs a backward pass.
      reset(parameters);
      if (group.rank() == 0) backward(parameters, 1.0);
      parallel.finish();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        expect_all(parameters[i].grad(), static_cast<double>(i + 1) / group.size());
      group.barrier();
    });
}

// Fails if gradients are reduced only after the backward pass. The hook below blocks the backward
// pass until one gradient has been reduced.
TEST_P(DataParallelRanks, ReducesDuringBackward) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    const Tensors parameters{at::full({100}, 1.0, here).set_requires_grad(true),
                             at::full({100}, 1.0, here).set_requires_grad(true)};
    DataParallel parallel(group, parameters, kOneEach);
    bool was_reduced = false;
    const auto hidden = parameters[0].mul(2.0);
    hidden.register_hook([&](const at::Tensor&) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(50);
      while (parallel.reduced() == 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      was_reduced = parallel.reduced() == 1;
    });
    hidden.mul(parameters[1]).mul(group.rank() + 1.0).sum().backward();
    EXPECT_TRUE(was_reduced);
    parallel.finish();
    expect_all(parameters[0].grad(), group.size() + 1.0);
    expect_all(parameters[1].grad(), group.size() + 1.0);
    group.barrier();
  });
}

// Fails if invalid use does not give an error, or leaves ranks waiting for each other.
TEST_P(DataParallelRanks, InvalidUseIsAnError) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    const auto make = [&](const Tensors& parameters, const DataParallelOptions& options = {}) {
      DataParallel parallel(group, parameters, options);
    };
    const auto good = at::zeros({3}, here).set_requires_grad(true);
    EXPECT_ERROR(make({}), invalid_argument, "the parameter list is empty");
    EXPECT_ERROR(make({good, at::zeros({3}, here)}), invalid_argument,
                 "parameter 1 cannot be trained");
    EXPECT_ERROR(make({good, good}), invalid_argument, "parameter 1 appears twice");
    EXPECT_ERROR(make({good}, {.bucket_cap_mb = 0}), invalid_argument, "bucket_cap_mb");
    EXPECT_ERROR(make({good}, {.first_bucket_mb = -1}), invalid_argument, "first_bucket_mb");
    const auto odd = at::zeros({3 + group.rank()}, here).set_requires_grad(true);
    if (group.rank() == 0) {
      EXPECT_ERROR(make({odd}), invalid_argument,
                   "the parameters or buckets of rank 1 differ from those of rank 0");
    } else {
      EXPECT_ERROR(make({odd}), invalid_argument, "differ from those of rank 0");
    }
    {
      DataParallel parallel(group, {good});
      EXPECT_ERROR(make({good}), invalid_state, "already has a post-accumulate-grad hook");
      const auto twice = good.mul(2.0).sum();
      twice.backward({}, /*retain_graph=*/true);
      EXPECT_ERROR(twice.backward(), invalid_state, "a second gradient before finish()");
    }
    good.mul(2.0).sum().backward();  // works, because the hook was removed
    group.barrier();
  });
}

std::string name_of(const testing::TestParamInfo<DataParallelRanks::ParamType>& info) {
  const auto& [backend, size, memory] = info.param;
  return std::string(backend) + std::to_string(size) + (memory ? "memory" : "staged");
}

INSTANTIATE_TEST_SUITE_P(Cpu, DataParallelRanks,
                         testing::Combine(testing::Values("cpu"), testing::Values(2, 3),
                                          testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Sim, DataParallelRanks,
                         testing::Combine(testing::Values("sim"), testing::Values(2),
                                          testing::Values(true)),
                         name_of);

// Fails if ranks wait forever for a killed rank.
TEST(DataParallelOfProcesses, KilledRankIsAnError) {
  for (const bool memory : {true, false}) {
    const auto ends = test::in_processes(2, [&](int rank) {
      const test::ScopedEnv no_ccl("ANYACCEL_CCL", "off");
      set_accelerator("cpu");
      auto group =
          init_process_group({.timeout = std::chrono::seconds(100), .shared_memory = memory});
      const auto parameters = parameters_of(0, at::TensorOptions().dtype(at::kFloat));
      DataParallel parallel(group, parameters, kOneEach);
      backward(parameters, 1.0);
      parallel.finish();
      if (rank == 1) ::raise(SIGKILL);
      reset(parameters);
      const auto step = [&] {
        backward(parameters, 1.0);
        parallel.finish();
      };
      EXPECT_ERROR(step(), unavailable, "");
    });
    EXPECT_EQ(ends[0], 0);
    EXPECT_TRUE(WIFSIGNALED(ends[1]));
  }
}

}  // namespace
}  // namespace anyaccel::comm
