// Tests the simulator in place of each device type that it can replace, through torch's own
// interfaces. A process can replace only one type, so each test runs in its own process.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "anyaccel/sim.h"
#include "backends/sim/runtime.h"
#include "unit/support/cuda_libtorch.h"
#include "unit/support/expect_error.h"

namespace anyaccel::backends::sim {
namespace {

class SimStandsIn : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ANYACCEL_SKIP_IF_TAKEN(GetParam(), /*autograd=*/true);
    at::set_num_threads(1);
    anyaccel::sim::install({.memory = 64 << 20, .stands_in_for = GetParam()});
  }
  static c10::Device device(int index) { return runtime().device(index); }
};

// Fails if torch does not know the type's name, or results and gradients differ from those of the
// CPU.
TEST_P(SimStandsIn, ComputesLikeTheCpu) {
  EXPECT_EQ(c10::Device(GetParam()).type(), runtime().type);
  EXPECT_TRUE(at::globalContext().getAcceleratorHooksInterface(runtime().type).isAvailable());
  const auto x = at::randn({2, 3, 8, 8}), w = at::randn({4, 3, 3, 3});
  const auto q = at::randn({2, 2, 5, 8});
  const auto run = [&](c10::Device where) {
    auto a = x.to(where).detach().requires_grad_(), b = w.to(where).detach().requires_grad_(),
         c = q.to(where).detach().requires_grad_();
    const auto y = at::conv2d(a, b, {}, 1, 1).relu();
    const auto z = at::scaled_dot_product_attention(c, c, c, {}, 0.0, true);
    const auto loss = y.square().mean() + z.square().mean();
    loss.backward();
    return std::vector<at::Tensor>{loss.detach().cpu(), a.grad().cpu(), b.grad().cpu(),
                                   c.grad().cpu()};
  };
  const auto expected = run(c10::kCPU), got = run(device(0)), other = run(device(1));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(got[i].equal(expected[i])) << i;
    EXPECT_TRUE(other[i].equal(expected[i])) << i;
  }
}

// Fails if torch's generic functions for streams, events, memory, random numbers or pinned memory
// do not work.
TEST_P(SimStandsIn, HasStreamsEventsMemoryAndRandomNumbers) {
  const c10::impl::VirtualGuardImpl guard(runtime().type);
  EXPECT_EQ(guard.deviceCount(), 2);
  const auto tensor = at::zeros({256}, at::TensorOptions().device(device(1)));
  auto* memory = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(runtime().type));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->getDeviceStats(1).allocated_bytes[0].current, 1024);
  EXPECT_EQ(memory->getMemoryInfo(1).second, 64U << 20);
  EXPECT_EQ(at::globalContext().getDeviceFromPtr(tensor.data_ptr(), runtime().type), device(1));

  const auto stream = guard.getStreamFromGlobalPool(device(0), true);
  c10::Event event(runtime().type, c10::EventFlag::BACKEND_DEFAULT);
  const auto other = [&] {
    const c10::StreamGuard on_it(stream);
    auto made = at::ones({8}, at::TensorOptions().device(device(0)));
    event.record(stream);
    return made;
  }();
  event.block(guard.getStream(device(0)));
  EXPECT_EQ(other.sum().item<float>(), 8);
  EXPECT_TRUE(event.query());

  auto generator = at::globalContext().defaultGenerator(device(0));
  generator.set_current_seed(4);
  const auto first = at::rand({4}, at::TensorOptions().device(device(0))).cpu();
  generator.set_current_seed(4);
  EXPECT_TRUE(at::rand({4}, at::TensorOptions().device(device(0))).cpu().equal(first));
  EXPECT_FALSE(at::rand({4}, at::TensorOptions().device(device(0))).cpu().equal(first));

  const auto pinned = at::ones({16}).pin_memory(device(0));
  EXPECT_TRUE(pinned.is_pinned(device(0)));
  EXPECT_EQ(pinned.to(device(0), /*non_blocking=*/true).sum().item<float>(), 16);
}

// Fails if autocast does not cast on this type, or casts an op that must stay in float32.
TEST_P(SimStandsIn, HasAutocast) {
  const auto a = at::randn({4, 4}).to(device(0)).requires_grad_();
  at::autocast::set_autocast_enabled(runtime().type, true);
  at::autocast::set_autocast_dtype(runtime().type, at::kBFloat16);
  const auto product = at::mm(a, a);
  const auto sum = at::softmax(product, -1);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(runtime().type, false);
  EXPECT_EQ(product.scalar_type(), at::kBFloat16);
  EXPECT_EQ(sum.scalar_type(), at::kFloat);
  sum.square().sum().backward();
  EXPECT_EQ(a.grad().scalar_type(), at::kFloat);
}

// The device types with dedicated hooks in torch, and one name for PrivateUse1.
INSTANTIATE_TEST_SUITE_P(Types, SimStandsIn,
                         testing::Values("hpu", "xpu", "mtia", "cuda", "mps", "npu"),
                         [](const auto& test) { return std::string(test.param); });

// Fails if a type that torch does not know is accepted.
TEST(SimStandsIn, RejectsUnknownTypes) {
  EXPECT_ERROR(anyaccel::sim::install({.stands_in_for = "fpga"}), invalid_argument, "fpga");
}

}  // namespace
}  // namespace anyaccel::backends::sim
