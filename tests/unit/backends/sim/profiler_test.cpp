// Tests the times and memory that the simulator reports to torch's profiler.
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

#include "anyaccel/sim.h"

namespace anyaccel {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class SimProfiler : public testing::Test {
 protected:
  SimProfiler() { sim::install({}); }
  const torch::profiler::impl::ProfilerStubs& stubs() {
    return *torch::profiler::impl::privateuse1Stubs();
  }
  at::Tensor make() { return at::randn({256, 256}, c10::Device(c10::DeviceType::PrivateUse1, 0)); }
};

// Fails if the time between two markers does not include the work queued between them, or is not in
// microseconds.
TEST_F(SimProfiler, MeasuresTheTimeOfQueuedWork) {
  const auto& stubs = this->stubs();
  const auto x = make();
  ASSERT_TRUE(stubs.enabled());
  ProfilerVoidEventStub start, end;
  c10::DeviceIndex device = -1;
  std::int64_t host_time = 0;
  const auto before = std::chrono::steady_clock::now();
  stubs.record(&device, &start, &host_time);
  for (int i = 0; i < 20; ++i) (void)at::mm(x, x);
  stubs.record(nullptr, &end, nullptr);
  const float microseconds = stubs.elapsed(&start, &end);
  const std::chrono::duration<float, std::micro> passed = std::chrono::steady_clock::now() - before;
  EXPECT_EQ(device, 0);
  EXPECT_GT(host_time, 0);
  EXPECT_GT(microseconds, 100);  // 20 matrix products with 33 million operations each
  EXPECT_LT(microseconds, passed.count());
}

// Fails if the profiler does not see an allocation or deallocation, or gets wrong totals.
TEST_F(SimProfiler, ReportsMemory) {
  struct Reporter final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* /*address*/, std::int64_t bytes, std::size_t allocated,
                           std::size_t /*reserved*/, c10::Device device) override {
      if (device.type() != c10::DeviceType::PrivateUse1) return;
      all.push_back(bytes);
      total = allocated;
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::vector<std::int64_t> all;
    std::size_t total = 0;
  };
  const auto reporter = std::make_shared<Reporter>();
  std::size_t before = 0;
  const auto options = make().options();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, reporter);
    at::Tensor y = at::randn({1024}, options);
    before = reporter->total;
    y.reset();
  }
  ASSERT_EQ(reporter->all.size(), 2U);
  EXPECT_EQ(reporter->all[0], 4096);
  EXPECT_EQ(reporter->all[1], -4096);
  EXPECT_EQ(before - reporter->total, 4096U);
}

}  // namespace
}  // namespace anyaccel
