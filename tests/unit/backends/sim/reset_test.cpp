// Tests sim::reset(). Each test runs in its own process.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/item.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/sim.h"
#include "backends/sim/allocator.h"
#include "backends/sim/graph.h"
#include "backends/sim/runtime.h"
#include "unit/support/expect_error.h"

namespace anyaccel::backends::sim {
namespace {

using anyaccel::sim::install;
using testing::IsEmpty;
using testing::SizeIs;

at::TensorOptions options_on(int index = 0, c10::ScalarType dtype = c10::kFloat) {
  return at::TensorOptions().dtype(dtype).device(runtime().device(index));
}

// Fails if a lost device stays lost, or an error from earlier work is thrown after the reset.
TEST(SimReset, RecoversFromErrors) {
  install({.faults = "lost@2/0,kernel@2/1"});
  for (int index = 0; index < 2; ++index) {
    const auto tensor = at::ones({4}, options_on(index));
    try {
      tensor.add(1);
    } catch (const c10::Error&) {  // the device is lost
    }
  }
  EXPECT_THROW(at::ones({4}, options_on()), c10::Error);
  anyaccel::sim::reset({});
  for (int index = 0; index < 2; ++index)
    EXPECT_EQ(at::ones({4}, options_on(index)).add(1).sum().item<float>(), 8) << index;
}

// Fails if faults passed to reset() are not injected, or calls before the reset count toward them.
TEST(SimReset, CountsFaultsFromOne) {
  install({});
  at::ones({4}, options_on());
  for (int round = 0; round < 2; ++round) {
    anyaccel::sim::reset({.faults = "alloc@2"});
    const auto first = at::empty({4}, options_on());
    EXPECT_THROW(at::empty({4}, options_on()), c10::OutOfMemoryError) << round;
  }
}

// Fails if a later install() with the options of the first one restores their faults.
TEST(SimReset, FaultsStayAfterAnotherInstall) {
  install({});
  anyaccel::sim::reset({.faults = "alloc@1"});
  install({});
  EXPECT_THROW(at::empty({4}, options_on()), c10::OutOfMemoryError);
}

// Fails if the choice of devices by a later install() restores the faults of the first one.
TEST(SimReset, FaultsStayWhenOtherDevicesBecomeVisible) {
  install({});
  anyaccel::sim::reset({.faults = "alloc@1/1"});
  install({.visible = std::vector<int>{1}});
  EXPECT_EQ(runtime().devices.size(), 1U);
  EXPECT_THROW(at::empty({4}, options_on()), c10::OutOfMemoryError);
}

// Fails if a memory limit passed to reset() does not apply, memory cached before the reset counts
// against it, or statistics are not reset.
TEST(SimReset, LimitsMemory) {
  install({.memory = 64 << 20});
  at::empty({48 << 20}, options_on(0, c10::kByte));
  anyaccel::sim::reset({.memory = 32 << 20});
  EXPECT_EQ(allocator().getMemoryInfo(0),
            std::make_pair(std::size_t{32} << 20, std::size_t{32} << 20));
  EXPECT_EQ(allocator().getDeviceStats(0).allocated_bytes[0].peak, 0);
  EXPECT_NO_THROW(at::empty({24 << 20}, options_on(0, c10::kByte)));
  EXPECT_THROW(at::empty({48 << 20}, options_on(0, c10::kByte)), c10::OutOfMemoryError);
  anyaccel::sim::reset({.memory = 64 << 20});
  EXPECT_NO_THROW(at::empty({48 << 20}, options_on(0, c10::kByte)));
}

// Fails if a tensor from before the reset loses its memory, or free memory becomes negative because
// the tensor exceeds the new limit.
TEST(SimReset, KeepsTensors) {
  install({.memory = 64 << 20});
  const auto tensor = at::ones({8 << 20}, options_on());
  anyaccel::sim::reset({.memory = 16 << 20});
  EXPECT_EQ(allocator().getMemoryInfo(0).first, 0U);
  EXPECT_EQ(tensor[123].item<float>(), 1);
}

// Fails if dtypes passed to reset() do not apply.
TEST(SimReset, RestrictsDtypes) {
  install({});
  anyaccel::sim::reset({.dtypes = {"float32"}});
  EXPECT_THROW(at::empty({4}, options_on(0, c10::kDouble)), c10::Error);
  anyaccel::sim::reset({});
  EXPECT_NO_THROW(at::empty({4}, options_on(0, c10::kDouble)));
}

// Fails if random numbers, the current device or the current streams depend on earlier tests.
TEST(SimReset, RestoresSeedDeviceAndStreams) {
  install({});
  const auto draw = [] { return at::rand({8}, options_on()).cpu(); };
  const auto expected = draw();
  set_current_device(1);
  exchange_stream(*runtime().devices[0]->streams[3]);
  anyaccel::sim::reset({});
  EXPECT_TRUE(draw().equal(expected));
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(current_stream(0).id(), 0);
}

// Fails if a problem that was reported before the reset is not reported again.
TEST(SimReset, ForgetsProblems) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "LibTorch's threads are not instrumented";
#endif
  install({.check = "report"});
  for (int round = 0; round < 2; ++round) {
    try {
      at::mm(at::ones({4, 4}, options_on(0)), at::ones({4, 4}, options_on(1)));
    } catch (const c10::Error&) {
    }
    EXPECT_THAT(anyaccel::sim::problems(), SizeIs(1)) << round;
    EXPECT_FALSE(anyaccel::sim::problems()[0].stack.empty());
    anyaccel::sim::reset({});  // keeps the checker
    EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  }
}

// Fails if install() with the same options as before is rejected after a reset.
TEST(SimReset, InstallStaysANoOp) {
  install({.devices = 1});
  anyaccel::sim::reset({.devices = 1, .faults = "alloc@9"});
  EXPECT_NO_THROW(install({.devices = 1}));
}

// Fails if a reset that a running simulator cannot perform is accepted.
TEST(SimReset, RejectsOtherDevices) {
  EXPECT_ERROR(anyaccel::sim::reset({}), invalid_state, "not running");
  install({.devices = 2, .memory = 64 << 20});
  EXPECT_ERROR(anyaccel::sim::reset({.devices = 3, .memory = 1 << 20}), invalid_argument,
               "devices");
  EXPECT_ERROR(anyaccel::sim::reset({.memory = 65 << 20}), invalid_argument, "memory");
  EXPECT_ERROR(anyaccel::sim::reset({.memory = 1 << 20, .stands_in_for = "npu"}), invalid_argument,
               "device type");
  EXPECT_ERROR(anyaccel::sim::reset({.memory = 1 << 20, .check = "report"}), invalid_argument,
               "checker");
  EXPECT_ERROR(anyaccel::sim::reset({.memory = 1 << 20, .faults = "x"}), invalid_argument, "fault");
  SimGraph graph;
  exchange_stream(*runtime().devices[0]->streams[1]);
  graph.capture_begin({0, 0});
  EXPECT_ERROR(anyaccel::sim::reset({.memory = 1 << 20}), invalid_state, "captured");
  graph.capture_end();
}

}  // namespace
}  // namespace anyaccel::backends::sim
