// Compares ops on the simulated device, forward and backward, bit for bit with the CPU. The ops run
// both queued and synchronized.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/index.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linalg_lu_factor.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "anyaccel/registry.h"
#include "anyaccel/sim.h"
#include "backends/sim/kernels.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

using Tensors = std::vector<at::Tensor>;

c10::Device device(int index = 0) {
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

class SimOps : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);  // streams of the simulated device use one thread
    sim::install({});
  }
};

/// Runs `work` on both devices. On the simulated device, runs it three times: synchronized, queued,
/// and queued behind other work.
template <typename Work>
void expect_equal(const char* name, const Tensors& inputs, Work work) {
  const auto run = [&](c10::Device where) {
    Tensors leaves;
    for (const auto& input : inputs)
      leaves.push_back(
          input.to(where).detach().clone().set_requires_grad(input.is_floating_point()));
    at::Tensor result = work(leaves);
    Tensors all{result.detach()};
    if (result.requires_grad()) {
      result.backward(at::ones(result.sizes(), result.options()));
      for (const auto& leaf : leaves)
        if (leaf.requires_grad() && leaf.grad().defined()) all.push_back(leaf.grad());
    }
    return all;
  };
  const auto expected = run(c10::kCPU);
  for (int round = 0; round < 3; ++round) {
    const auto got = run(device());
    ASSERT_EQ(got.size(), expected.size()) << name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].device(), device()) << name;
      EXPECT_TRUE(got[i].cpu().equal(expected[i]))
          << name << ", tensor " << i << ", round " << round;
    }
  }
}

// Fails if an op's result differs from the CPU result in any bit, forward or backward. The cases
// cover functional, in-place, out=, view and decomposed ops, and ops with multiple outputs.
TEST_F(SimOps, MatchTheCpuBitwise) {
  const auto x = at::randn({6, 8}), y = at::randn({8, 5}), z = at::randn({8});
  expect_equal("mm", {x, y}, [](const Tensors& t) { return t[0].mm(t[1]); });
  expect_equal("broadcast", {x, z}, [](const Tensors& t) { return t[0] * t[1] + 2.5; });
  expect_equal("relu", {x}, [](const Tensors& t) { return at::relu(t[0]); });
  expect_equal("gelu", {x}, [](const Tensors& t) { return at::gelu(t[0]); });
  expect_equal("softmax", {x}, [](const Tensors& t) { return t[0].softmax(-1); });
  expect_equal("layer_norm", {x, z, z},
               [](const Tensors& t) { return at::layer_norm(t[0], {8}, t[1], t[2]); });
  expect_equal("linear", {x, at::randn({3, 8}), at::randn({3})},
               [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); });
  expect_equal("views", {x}, [](const Tensors& t) {
    return t[0].t().narrow(0, 1, 4).reshape({-1}).unsqueeze(1);
  });
  expect_equal("cat", {x, x}, [](const Tensors& t) { return at::cat({t[0], t[1]}, 1); });
  expect_equal("topk", {x}, [](const Tensors& t) { return std::get<0>(at::topk(t[0], 3)); });
  expect_equal("where", {x},
               [](const Tensors& t) { return at::where(t[0] > 0, t[0], t[0] * 0.1); });
  expect_equal("in place", {x},
               [](const Tensors& t) { return t[0].clone().add_(1).mul_(t[0]).clamp_(-1, 2); });
  expect_equal("index", {x, at::arange(3)}, [](const Tensors& t) { return t[0].index({t[1]}); });
  expect_equal("index by mask", {x, x.gt(0)}, [](const Tensors& t) { return t[0].index({t[1]}); });
  expect_equal("silu", {at::randn({20})}, [](const Tensors& t) { return at::silu(t[0]); });
  expect_equal("mask", {x}, [](const Tensors& t) { return t[0].masked_select(t[0] > 0); });
  expect_equal("nonzero", {x.gt(0)}, [](const Tensors& t) { return at::nonzero(t[0]); });
  expect_equal("embedding", {x, at::arange(4)},
               [](const Tensors& t) { return at::embedding(t[0], t[1]); });
  expect_equal("mse_loss", {x, x + 1}, [](const Tensors& t) { return at::mse_loss(t[0], t[1]); });
  expect_equal("cross_entropy", {x, at::arange(6)},
               [](const Tensors& t) { return at::cross_entropy_loss(t[0], t[1]); });
  expect_equal("conv2d", {at::randn({2, 3, 9, 9}), at::randn({4, 3, 3, 3}), at::randn({4})},
               [](const Tensors& t) { return at::conv2d(t[0], t[1], t[2], 2, 1); });
  expect_equal("attention",
               {at::randn({2, 2, 7, 8}), at::randn({2, 2, 7, 8}), at::randn({2, 2, 7, 8})},
               [](const Tensors& t) {
                 return at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, true);
               });
  expect_equal("sort", {x}, [](const Tensors& t) { return std::get<0>(t[0].sort(1)); });
  expect_equal("bf16", {x.to(at::kBFloat16)}, [](const Tensors& t) { return (t[0] * 3).sum(1); });
}

// Fails if a loss kernel that uses its output as scratch memory of a different shape causes a
// resize warning.
TEST_F(SimOps, LossesDoNotWarn) {
  const auto a = at::randn({4, 4}), b = at::randn({4, 4});
  testing::internal::CaptureStderr();
  for (int round = 0; round < 2; ++round)
    for (const int reduction : {1, 2}) {
      EXPECT_TRUE(at::mse_loss(a.to(device()), b.to(device()), reduction)
                      .cpu()
                      .equal(at::mse_loss(a, b, reduction)));
      EXPECT_TRUE(at::smooth_l1_loss(a.to(device()), b.to(device()), reduction)
                      .cpu()
                      .equal(at::smooth_l1_loss(a, b, reduction)));
    }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(testing::HasSubstr("resized")));
}

// Fails if a result is not written to the out= tensor, or an out= tensor of the wrong size is not
// resized.
TEST_F(SimOps, OutTensorsAreWrittenAndResized) {
  const auto a = at::randn({4, 4}), b = at::randn({4, 4});
  for (int round = 0; round < 2; ++round) {
    auto out = at::empty({0}, at::TensorOptions().device(device()));
    at::add_out(out, a.to(device()), b.to(device()));
    EXPECT_TRUE(out.cpu().equal(a + b));
    auto small = at::empty({0}, at::TensorOptions().device(device()));
    at::mse_loss_out(small, a.to(device()), b.to(device()), 0);
    EXPECT_TRUE(small.cpu().equal(at::mse_loss(a, b, 0)));
  }
}

// Fails if a copy or item() ignores the conjugate or negative bit.
TEST_F(SimOps, ConjugateAndNegativeBits) {
  const auto host = at::complex(at::randn({5}), at::randn({5}));
  const auto tensor = host.to(device());
  EXPECT_TRUE(tensor.conj().cpu().equal(host.conj().resolve_conj()));
  EXPECT_EQ(tensor.conj()[2].item<c10::complex<double>>(),
            host.conj()[2].item<c10::complex<double>>());
  EXPECT_TRUE(at::view_as_real(tensor.conj().resolve_conj())
                  .cpu()
                  .equal(at::view_as_real(host.conj().resolve_conj())));
  EXPECT_TRUE(at::imag(tensor.conj()).clone().cpu().equal(at::imag(host.conj()).clone()));
}

// Fails if the result is wrong for a kernel that leaves the conjugation of its output to the
// caller, such as linalg_lu_solve.
TEST_F(SimOps, DeferredConjugationIsApplied) {
  const auto a = at::complex(at::randn({3, 3}), at::randn({3, 3})),
             b = at::complex(at::randn({4, 3}), at::randn({4, 3}));
  const auto [lu, pivots] = at::linalg_lu_factor(a);
  const auto expected = at::linalg_lu_solve(lu, pivots, b, /*left=*/false);
  for (int round = 0; round < 2; ++round) {
    const auto got =
        at::linalg_lu_solve(lu.to(device()), pivots.to(device()), b.to(device()), false);
    EXPECT_TRUE(got.cpu().equal(expected.resolve_conj()));
  }
}

// Fails if an op accepts tensors on different devices, or a copy between devices is wrong.
TEST_F(SimOps, DevicesDoNotMix) {
  const auto host = at::randn({1000});
  const auto first = host.to(device(0));
  const auto second = first.to(device(1));
  EXPECT_EQ(second.device(), device(1));
  EXPECT_TRUE((second * 2).cpu().equal(host * 2));
  EXPECT_TRUE(second.to(device(0)).cpu().equal(host));
  EXPECT_THROW(first + second, c10::Error);
  EXPECT_THROW(first + host, c10::Error);
  EXPECT_THROW(at::mm(first.view({10, 100}), host.view({100, 10})), c10::Error);
  EXPECT_TRUE((first + at::ones({})).cpu().equal(host + 1));
}

// Fails if an out-of-range index crashes the program, or the next wait does not report it.
TEST_F(SimOps, KernelErrorSurfacesAtTheNextWait) {
  const auto table = at::randn({4, 2}).to(device());
  const auto good = at::arange(2).to(device()), bad = (at::arange(2) + 9).to(device());
  at::embedding(table, good);
  // As on a GPU, the op is only queued. Its result has a shape, but no data yet.
  const auto result = at::embedding(table, bad);
  EXPECT_THROW(result.cpu(), c10::Error);
  EXPECT_TRUE(at::embedding(table, good).cpu().equal(table.cpu().narrow(0, 0, 2)));
}

// Fails if dropout uses the host's generator, or does not scale the remaining values.
TEST_F(SimOps, DropoutDrawsFromTheDevice) {
  const auto x = at::ones({1000}).to(device());
  at::manual_seed(5);
  const auto expected = at::rand({4});
  at::manual_seed(5);
  const auto dropped = at::dropout(x, 0.25, true).cpu();
  EXPECT_TRUE(at::rand({4}).equal(expected));
  const auto kept = dropped.ne(0);
  EXPECT_NEAR(kept.sum().item<double>(), 750, 80);
  EXPECT_TRUE(
      dropped.masked_select(kept).allclose(at::ones({kept.sum().item<std::int64_t>()}) / 0.75));
}

// Fails if the accelerator's properties do not match the simulator's options, or an unsupported
// dtype or an allocation beyond the memory limit is accepted.
TEST(SimBackend, IsAnAccelerator) {
  const test::ScopedEnv name("DS_ACCELERATOR", "sim"), memory("SIM_MEMORY", "64MiB"),
      devices("SIM_DEVICES", "3"), dtypes("SIM_DTYPES", "float32,int64,bool,uint8");
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.device_name(1), "sim:1");
  EXPECT_EQ(accelerator.device_count(), 3);
  EXPECT_EQ(accelerator.total_memory(), 64 << 20);
  EXPECT_FALSE(accelerator.is_synchronized_device());
  EXPECT_FALSE(accelerator.is_fp16_supported());
  const auto tensor = at::zeros({1024}, at::TensorOptions().device(accelerator.torch_device()));
  EXPECT_EQ(accelerator.memory_allocated(), 4096);
  EXPECT_THROW(tensor.to(at::kDouble), c10::TypeError);
  EXPECT_THROW(at::empty({100 << 20}, tensor.options()), c10::OutOfMemoryError);
}

// Fails if automatic detection selects the simulator, or the simulator cannot be selected by name.
TEST(SimBackend, IsChosenByNameOnly) {
  EXPECT_NE(detect().accelerator, "sim");
  set_accelerator("sim");
  EXPECT_EQ(get_accelerator().name(), "sim");
}

// Fails if a forked child that uses the device hangs or crashes instead of getting an error.
TEST_F(SimOps, ForkedChildGetsAnError) {
  const auto tensor = at::ones({4}).to(device());
  tensor.add_(1).cpu();
  const auto mentions_fork = [](const auto& work) {
    try {
      work();
    } catch (const c10::Error& error) {
      return std::string(error.what()).find("fork") != std::string::npos;
    }
    return false;
  };
  // Queued work never runs in the child, so neither a wait nor the exit of the process may block on
  // it.
  std::atomic<bool> open{false};
  backends::sim::launch_function(*backends::sim::runtime().devices[0]->streams[0], "gate", {},
                                 [&open] {
                                   while (!open.load()) std::this_thread::yield();
                                 });
  const auto child = ::fork();
  if (child == 0) {
    const bool all =
        mentions_fork([&] { tensor.add_(1); }) &&
        mentions_fork([&] { synchronize(*backends::sim::runtime().devices[0]->streams[0]); }) &&
        mentions_fork([&] { backends::sim::runtime().devices[0]->synchronize(); });
    // exit() also stops the streams, but would report leaks for threads that do not exist in the
    // child.
    backends::sim::stop_streams();
    std::_Exit(all ? 0 : 1);
  }
  open = true;
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace anyaccel
