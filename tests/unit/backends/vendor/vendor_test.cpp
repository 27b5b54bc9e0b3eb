// Tests each vendor backend on a test device that replaces its torch type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "unit/support/cuda_libtorch.h"
#include "unit/support/test_device.h"

namespace anyaccel {
namespace {

/// Each test runs in its own process (ctest), because a device type can be replaced only once.
class VendorTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto names = registered_backends();
    if (std::find(names.begin(), names.end(), GetParam()) == names.end())
      GTEST_SKIP() << "this build lacks the backend";
    ANYACCEL_SKIP_IF_TAKEN(GetParam());
    setenv("ANYACCEL_DEVICE_ROOT", "/nonexistent", 1);
    setenv("ANYACCEL_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
    setenv("DS_ACCELERATOR", GetParam(), 1);
    test::install_test_device(GetParam());
  }
};

// Fails if a vendor backend does not work on its device type, or breaks features of the generic
// backend.
TEST_P(VendorTest, DrivesItsDevice) {
  auto& device = test::TestDevice::get();
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.device_name(), GetParam());
  EXPECT_EQ(accelerator.device_count(), 2);
  const bool indexed = accelerator.backend().traits().indexed_names;
  EXPECT_EQ(accelerator.device_name(1), std::string(GetParam()) + (indexed ? ":1" : ""));
  accelerator.set_device(1);
  EXPECT_EQ(accelerator.current_device(), 1);
  EXPECT_TRUE(device.initialized);
  if (indexed) {
    EXPECT_THROW(accelerator.set_device(2), Error);
  } else {
    accelerator.set_device(2);
    EXPECT_EQ(accelerator.current_device(), 0);
    accelerator.set_device(1);
  }
  accelerator.synchronize();

  auto stream = accelerator.Stream();
  EXPECT_EQ(stream.device_index(), 1);
  {
    auto guard = accelerator.stream(stream);
    EXPECT_EQ(accelerator.current_stream(), stream);
  }
  EXPECT_EQ(accelerator.current_stream(), accelerator.default_stream());
  auto start = accelerator.Event(true);
  auto end = accelerator.Event(true);
  start.record(stream);
  end.record(stream);
  EXPECT_GE(start.elapsed_time(end), 0);
  EXPECT_TRUE(end.query());
}

// Fails if memory statistics do not come from the device, or the peak cannot be reset.
TEST_P(VendorTest, CountsMemory) {
  auto& accelerator = get_accelerator();
  accelerator.set_device(0);
  const auto before = accelerator.memory_allocated();
  {
    auto block = c10::GetAllocator(test::TestDevice::get().type)->allocate(4096);
    EXPECT_EQ(accelerator.memory_allocated() - before, 4096);
    EXPECT_EQ(accelerator.available_memory(), accelerator.total_memory() - 4096);
  }
  EXPECT_EQ(accelerator.total_memory(), static_cast<std::int64_t>(test::kDeviceMemory));
  EXPECT_EQ(accelerator.memory_allocated(), before);
  EXPECT_GE(accelerator.max_memory_allocated(), 4096);
  accelerator.reset_peak_memory_stats();
  EXPECT_EQ(accelerator.max_memory_allocated(), before);
}

// Fails if seeds do not reach the device's generators.
TEST_P(VendorTest, SeedsItsGenerator) {
  auto& accelerator = get_accelerator();
  accelerator.manual_seed_all(7);
  EXPECT_EQ(accelerator.initial_seed(), 7U);
  EXPECT_EQ(accelerator.default_generator(1).current_seed(), 7U);
}

// Fails if a property that does not require a vendor library is missing.
TEST_P(VendorTest, HasProperties) {
  const auto properties = get_accelerator().device_properties(0);
  EXPECT_FALSE(properties.name.empty());
  EXPECT_FALSE(properties.vendor.empty());
  EXPECT_EQ(properties.total_memory, static_cast<std::int64_t>(test::kDeviceMemory));
}

// Fails if a backend requires functions that torch lets a device guard leave out. The guards of
// NVIDIA, Huawei, Cambricon and Biren do not report dtypes, Intel's has no default stream, and
// Apple's cannot wait for a stream.
TEST_P(VendorTest, ToleratesAMinimalGuard) {
  auto& device = test::TestDevice::get();
  device.minimal_guard = true;
  auto& accelerator = get_accelerator();
  EXPECT_TRUE(accelerator.dtype_support(c10::kFloat).computable);
  EXPECT_THAT(accelerator.supported_dtypes(), testing::Contains(c10::kFloat));
  EXPECT_EQ(accelerator.is_fp64_supported(), std::string(GetParam()) != "mps");

  const auto stream = accelerator.Stream();
  const auto guard = accelerator.stream(stream);
  EXPECT_EQ(accelerator.default_stream().id(), 0);
  EXPECT_TRUE(stream.query());
  stream.synchronize();
  EXPECT_EQ(device.events_awaited, 1);
}

#if ANYACCEL_TEST_GRAPHS
// Fails if a capture is not reported because the device guard cannot tell whether a stream is being
// captured, or if other streams are reported as well.
TEST_P(VendorTest, ReportsItsOwnCaptures) {
  auto& accelerator = get_accelerator();
  auto graph = accelerator.create_graph();
  EXPECT_FALSE(accelerator.is_current_stream_capturing());
  graph.capture_begin();
  EXPECT_TRUE(accelerator.is_current_stream_capturing());
  {
    const auto side = accelerator.stream(accelerator.Stream());
    EXPECT_FALSE(accelerator.is_current_stream_capturing());
  }
  graph.capture_end();
  EXPECT_FALSE(accelerator.is_current_stream_capturing());
}
#endif

INSTANTIATE_TEST_SUITE_P(All, VendorTest,
                         testing::Values("cuda", "hpu", "xpu", "npu", "mlu", "mps", "sdaa", "supa"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace anyaccel
