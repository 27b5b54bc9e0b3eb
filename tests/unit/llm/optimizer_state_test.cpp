#include "llm/zero/state.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <functional>

#include "anyaccel/registry.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr StateKind kKinds[] = {StateKind::exp_avg, StateKind::exp_avg_sq, StateKind::weight};

Tensors parameters(c10::ScalarType dtype) {
  at::manual_seed(3);
  Tensors out;
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{70, 51}, {37}, {129}, {200, 301}})
    out.push_back(at::randn(sizes).to(dtype));
  return out;
}

/// This rank's part of a bucket's gradients. The gradient of a parameter does not depend on the
/// number of ranks.
at::Tensor gradient_of(const Partition& partition, const std::vector<PartitionItem>& items,
                       std::size_t b, std::int64_t step) {
  const PartitionBucket& bucket = partition.buckets()[b];
  const at::Tensor whole = at::zeros({partition.size(b)});
  for (std::size_t k = 0; k < bucket.parameters.size(); ++k) {
    at::manual_seed(static_cast<std::uint64_t>(100 * step) + bucket.parameters[k]);
    whole.narrow(0, bucket.offsets[k], items[bucket.parameters[k]].count).normal_();
  }
  return whole.narrow(0, partition.rank() * bucket.part, bucket.part);
}

using Make = std::function<std::unique_ptr<OptimizerState>(OwnedParameters)>;

/// Runs three steps on each of `ranks` ranks, which share the parameters, as if they exchanged
/// their parts. Between the steps, the state moves to another object. The last parameter has no
/// gradient in step 2.
Tensors trained(c10::ScalarType dtype, int ranks, const Make& make) {
  const Tensors all = parameters(dtype);
  std::vector<PartitionItem> items;
  for (const at::Tensor& parameter : all) items.push_back({parameter.numel()});
  for (int rank = 0; rank < ranks; ++rank) {
    const Partition partition(items, 5000, rank, ranks);
    const OwnedParameters owned{partition,
                                all,
                                {true, false, false, true},
                                {.lr = 1e-2, .beta2 = 0.99, .weight_decay = 0.1}};
    auto state = make(owned);
    for (std::int64_t step = 1; step <= 3; ++step) {
      if (step > 1) {
        auto next = make(owned);
        for (const StateKind kind : kKinds) {
          for (std::size_t b = 0; b < partition.buckets().size(); ++b)
            next->write(kind, b, state->read(kind, b));
        }
        state = std::move(next);
      }
      UpdateInput input{.step = step, .lr = 1e-2 / static_cast<double>(step), .scale = 0.5F};
      input.gradient = [&](std::size_t b) { return gradient_of(partition, items, b, step); };
      input.present = {true, true, true, step != 2};
      state->prepare();
      state->update(input);
    }
  }
  return all;
}

void expect_near(const Tensors& got, const Tensors& want, double limit) {
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(at::allclose(got[i].to(at::kFloat), want[i].to(at::kFloat), limit, limit)) << i;
}

void expect_equal(const Tensors& got, const Tensors& want) {
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
}

// Fails if the number of ranks, or the place of the state, changes the result of the same kernel,
// or if CPUAdam differs from AdamW by more than rounding.
TEST(OptimizerState, SameResults) {
  set_accelerator("cpu");
  const c10::AutoGradMode no_gradient(false);
  const TemporaryFolder folder;
  const Make disk = [&](OwnedParameters owned) { return make_disk_state(owned, folder.path()); };
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Tensors device = trained(dtype, 1, make_device_state);
    const Tensors host = trained(dtype, 1, make_host_state);
    EXPECT_FALSE(at::equal(device[3], parameters(dtype)[3]));
    expect_near(host, device, dtype == at::kFloat ? 1e-6 : 1e-2);
    for (const int ranks : {1, 2, 3, 7}) {
      expect_equal(trained(dtype, ranks, make_device_state), device);
      expect_equal(trained(dtype, ranks, make_host_state), host);
      expect_equal(trained(dtype, ranks, disk), host);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Fails if a state larger than the buffers is mixed up: 5 chunks of 4 Mi elements.
TEST(OptimizerState, ManyChunks) {
  set_accelerator("cpu");
  const c10::AutoGradMode no_gradient(false);
  const TemporaryFolder folder;
  const std::vector<PartitionItem> items{{(std::int64_t{4} << 20) * 9 / 2}, {(4 << 20) + 5}};
  const Partition partition(items, 1, 0, 1);
  std::vector<Tensors> results;
  for (const bool on_disk : {false, true}) {
    at::manual_seed(1);
    const Tensors all{at::randn({items[0].count}, at::kBFloat16),
                      at::randn({items[1].count}, at::kBFloat16)};
    const OwnedParameters owned{partition, all, {true, true}, {.lr = 1e-2}};
    auto state = on_disk ? make_disk_state(owned, folder.path()) : make_host_state(owned);
    for (std::int64_t step = 1; step <= 3; ++step) {
      UpdateInput input{.step = step, .lr = 1e-2};
      const Tensors gradients{at::randn({partition.size(0)}), at::randn({partition.size(1)})};
      input.gradient = [&](std::size_t b) { return gradients[b]; };
      input.present = {true, true};
      if (step > 1) state->prepare();
      state->update(input);
    }
    results.push_back(all);
    for (const StateKind kind : kKinds)
      results.back().push_back(state->read(kind, 1).narrow(0, 0, items[0].count));
  }
  expect_equal(results[1], results[0]);
}

// Fails if missing space is not reported before training, or the error does not name the folder. A
// file size limit simulates a full disk.
TEST(OptimizerState, FullDisk) {
  set_accelerator("cpu");
  const TemporaryFolder folder;
  const Tensors all = parameters(at::kBFloat16);
  std::vector<PartitionItem> items;
  for (const at::Tensor& parameter : all) items.push_back({parameter.numel()});
  const Partition partition(items, 5000, 0, 1);
  const OwnedParameters owned{partition, all, {true, false, false, true}, {}};
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_ERROR(make_disk_state(owned, folder.path()), io, folder.path().string());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_ERROR(make_disk_state(owned, folder.write("file", "text")), io, "file");
  std::filesystem::remove(folder / "file");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace anyaccel::llm
