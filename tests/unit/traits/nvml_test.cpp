// Tests NVML with a fake library.
#include "backends/cuda/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "anyaccel/error.h"
#include "backends/cuda/traits.h"
#include "test_paths.h"
#include "unit/support/expect_error.h"

namespace anyaccel::backends::cuda {
namespace {

using testing::HasSubstr;
using Texts = std::vector<std::string>;

std::string fake(const char* name) {
  return std::string(ANYACCEL_BUILD_DIR) + "/lib/lib" + name + ".so";
}

constexpr const char* kTwo = "gpu GPU-aaaa H200 9 0 100 400\ngpu GPU-bbbb H200 9 0 200 400\n";
constexpr const char* kDifferent = "gpu GPU-aaaa T4 7 5 10 16\ngpu GPU-bbbb H200 9 0 200 400\n";
constexpr const char* kMig =
    "gpu GPU-aaaa H200 9 0 1 400\n"
    "mig MIG-1111 1 0 30 40\n"
    "mig MIG-2222 2 0 50 60\n"
    "gpu GPU-bbbb H200 9 0 200 400\n";

/// The fake library reads its configuration when it is initialized. Each test runs in its own
/// process and sets the configuration first.
class NvmlTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_ORDER");
    setenv("ANYACCEL_NVML_LIBRARY", fake("fake_nvml").c_str(), 1);
  }
  static void machine(const char* text) { setenv("FAKE_NVML", text, 1); }
  static void visible(const char* text) { setenv("CUDA_VISIBLE_DEVICES", text, 1); }
};

// Fails if NVML's numbering is used although CUDA_VISIBLE_DEVICES selects or reorders devices.
TEST_F(NvmlTest, FollowsCudaVisibleDevices) {
  machine(kTwo);
  visible("1");
  const auto& nvml = Nvml::instance();
  ASSERT_EQ(nvml.reason(), "");
  ASSERT_EQ(nvml.visible_uuids(), Texts{"GPU-bbbb"});
  EXPECT_EQ(nvml.memory(nvml.visible_uuids()[0]).free, 200U);
  EXPECT_EQ(probe_devices().device_count, 1);
}

// Fails if a UUID in CUDA_VISIBLE_DEVICES is rejected. DeepSpeed parses entries with int(), which
// fails on UUIDs.
TEST_F(NvmlTest, AcceptsUuids) {
  machine(kTwo);
  visible("GPU-bb,GPU-aa");
  EXPECT_EQ(Nvml::instance().visible_uuids(), (Texts{"GPU-bbbb", "GPU-aaaa"}));
  EXPECT_TRUE(Nvml::instance().order_is_certain());
}

// Fails if the memory of a MIG instance is queried from the physical device. Containers deny access
// to the physical device.
TEST_F(NvmlTest, QueriesTheMigInstance) {
  machine(kMig);
  visible("MIG-2222");
  const auto& nvml = Nvml::instance();
  ASSERT_EQ(nvml.visible_uuids(), Texts{"MIG-2222"});
  EXPECT_EQ(nvml.memory("MIG-2222").free, 50U);
  EXPECT_EQ(nvml.memory("MIG-2222").total, 60U);
  EXPECT_ERROR(nvml.memory("GPU-aaaa"), unavailable, "no permission");
}

// Fails if a device in MIG mode is listed instead of its MIG instance.
TEST_F(NvmlTest, MigModeShowsOneInstance) {
  machine(kMig);
  EXPECT_EQ(Nvml::instance().visible_uuids(), Texts{"MIG-1111"});
  EXPECT_EQ(probe_devices().device_count, 1);
}

// Fails if the name, compute capability or driver version is wrong.
TEST_F(NvmlTest, Properties) {
  machine(kDifferent);
  const auto properties = Nvml::instance().properties("GPU-aaaa");
  EXPECT_EQ(properties.name, "T4");
  EXPECT_EQ(properties.capability, (Capability{7, 5}));
  EXPECT_EQ(properties.driver_version, "580.65.06");
  EXPECT_ERROR(Nvml::instance().properties("GPU-none"), unavailable, "not found");
}

// Fails if NVML's device order is trusted although CUDA may list the fastest device first.
TEST_F(NvmlTest, KnowsWhenTheOrderIsUncertain) {
  machine(kDifferent);
  EXPECT_FALSE(Nvml::instance().order_is_certain());
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  EXPECT_TRUE(Nvml::instance().order_is_certain());
}

// Fails if a device that the container cannot open shifts the indices of the others.
TEST_F(NvmlTest, InaccessibleDevicesKeepTheirIndex) {
  machine("gpu -\ngpu GPU-bbbb H200 9 0 200 400\n");
  visible("1");
  EXPECT_EQ(Nvml::instance().visible_uuids(), Texts{"GPU-bbbb"});
}

// Fails if old drivers without the MIG functions are rejected.
TEST_F(NvmlTest, WorksWithoutMigFunctions) {
  machine(kTwo);
  setenv("ANYACCEL_NVML_LIBRARY", fake("fake_nvml_old").c_str(), 1);
  EXPECT_EQ(probe_devices().device_count, 2);
}

// Fails if a library without a required function is used, or the reason does not name the function.
TEST_F(NvmlTest, NamesTheMissingFunction) {
  machine(kTwo);
  setenv("ANYACCEL_NVML_LIBRARY", fake("fake_nvml_broken").c_str(), 1);
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr("nvmlDeviceGetHandleByIndex_v2"));
  EXPECT_ERROR(Nvml::instance().memory("GPU-aaaa"), unavailable, "nvmlDeviceGetHandleByIndex_v2");
}

// Fails if a missing or invalid library causes an error instead of a reason.
TEST_F(NvmlTest, BrokenLibraryGivesAReason) {
  const auto path =
      std::filesystem::temp_directory_path() / ("broken_nvml_" + std::to_string(getpid()));
  std::ofstream(path) << "not a library";
  setenv("ANYACCEL_NVML_LIBRARY", path.c_str(), 1);
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr(path.string()));
  std::filesystem::remove(path);
}

// Fails if devices are reported although the driver cannot be initialized, for example after a
// driver update.
TEST_F(NvmlTest, StartFailureGivesAReason) {
  machine("fail 18\n");
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr("driver and library versions differ"));
}

// Fails if the reason for "no devices" does not name the variable that hides them.
TEST_F(NvmlTest, ReasonNamesTheVariable) {
  machine(kTwo);
  visible("-1");
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr("CUDA_VISIBLE_DEVICES=-1"));
}

// Fails if queries do not work in a forked child.
TEST_F(NvmlTest, SurvivesFork) {
  machine(kTwo);
  ASSERT_EQ(probe_devices().device_count, 2);
  const pid_t child = fork();
  if (child == 0)
    _exit(Nvml::instance().memory("GPU-aaaa").free == 100 && probe_devices().device_count == 2 ? 0
                                                                                               : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace anyaccel::backends::cuda
