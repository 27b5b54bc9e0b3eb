// NVML, with a fake library.
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

/// The fake reads its configuration when it starts. Each test runs in its own process and sets it
/// first.
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

// Fails if NVML's numbering is used although the process sees other devices or a different order.
TEST_F(NvmlTest, FollowsCudaVisibleDevices) {
  machine(kTwo);
  visible("1");
  const auto& nvml = Nvml::instance();
  ASSERT_EQ(nvml.reason(), "");
  ASSERT_EQ(nvml.visible_uuids(), Texts{"GPU-bbbb"});
  EXPECT_EQ(nvml.memory(nvml.visible_uuids()[0]).free, 200U);
  EXPECT_EQ(probe_devices().device_count, 1);
}

// Fails if a UUID in the variable is not understood. DeepSpeed's int() crashed on it.
TEST_F(NvmlTest, UnderstandsUuids) {
  machine(kTwo);
  visible("GPU-bb,GPU-aa");
  EXPECT_EQ(Nvml::instance().visible_uuids(), (Texts{"GPU-bbbb", "GPU-aaaa"}));
  EXPECT_TRUE(Nvml::instance().order_is_certain());
}

// Fails if the physical device is queried for a MIG instance's memory, which containers deny.
TEST_F(NvmlTest, AsksTheMigInstanceItself) {
  machine(kMig);
  visible("MIG-2222");
  const auto& nvml = Nvml::instance();
  ASSERT_EQ(nvml.visible_uuids(), Texts{"MIG-2222"});
  EXPECT_EQ(nvml.memory("MIG-2222").free, 50U);
  EXPECT_EQ(nvml.memory("MIG-2222").total, 60U);
  EXPECT_ERROR(nvml.memory("GPU-aaaa"), unavailable, "no permission");
}

// Fails if a device in MIG mode counts as a whole device.
TEST_F(NvmlTest, MigModeShowsOneInstance) {
  machine(kMig);
  EXPECT_EQ(Nvml::instance().visible_uuids(), Texts{"MIG-1111"});
  EXPECT_EQ(probe_devices().device_count, 1);
}

// Fails if the name, capability or driver version is lost.
TEST_F(NvmlTest, Properties) {
  machine(kDifferent);
  const auto properties = Nvml::instance().properties("GPU-aaaa");
  EXPECT_EQ(properties.name, "T4");
  EXPECT_EQ(properties.capability, (Capability{7, 5}));
  EXPECT_EQ(properties.driver_version, "580.65.06");
  EXPECT_ERROR(Nvml::instance().properties("GPU-none"), unavailable, "not found");
}

// Fails if NVML's order is used although CUDA puts the fastest device first.
TEST_F(NvmlTest, KnowsWhenTheOrderIsUncertain) {
  machine(kDifferent);
  EXPECT_FALSE(Nvml::instance().order_is_certain());
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  EXPECT_TRUE(Nvml::instance().order_is_certain());
}

// Fails if a device that the container may not open shifts the indices of the others.
TEST_F(NvmlTest, UnopenedDevicesKeepTheirIndex) {
  machine("gpu -\ngpu GPU-bbbb H200 9 0 200 400\n");
  visible("1");
  EXPECT_EQ(Nvml::instance().visible_uuids(), Texts{"GPU-bbbb"});
}

// Fails if drivers that predate MIG, and lack its functions, are rejected.
TEST_F(NvmlTest, WorksWithoutTheFunctionsOfMig) {
  machine(kTwo);
  setenv("ANYACCEL_NVML_LIBRARY", fake("fake_nvml_old").c_str(), 1);
  EXPECT_EQ(probe_devices().device_count, 2);
}

// Fails if a library that lacks required functions is used, or the reason does not name them.
TEST_F(NvmlTest, NamesTheMissingFunction) {
  machine(kTwo);
  setenv("ANYACCEL_NVML_LIBRARY", fake("fake_nvml_broken").c_str(), 1);
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr("nvmlDeviceGetHandleByIndex_v2"));
  EXPECT_ERROR(Nvml::instance().memory("GPU-aaaa"), unavailable, "nvmlDeviceGetHandleByIndex_v2");
}

// Fails if a missing or invalid library is fatal.
TEST_F(NvmlTest, BrokenLibraryIsAReason) {
  const auto path =
      std::filesystem::temp_directory_path() / ("broken_nvml_" + std::to_string(getpid()));
  std::ofstream(path) << "not a library";
  setenv("ANYACCEL_NVML_LIBRARY", path.c_str(), 1);
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr(path.string()));
  std::filesystem::remove(path);
}

// Fails if a driver that cannot start (versions differ after an update) counts as having devices.
TEST_F(NvmlTest, StartFailureIsAReason) {
  machine("fail 18\n");
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr("different versions"));
}

// Fails if the reason for "no devices" does not name the variable that caused it.
TEST_F(NvmlTest, ReasonNamesTheVariable) {
  machine(kTwo);
  visible("-1");
  const auto probe = probe_devices();
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_THAT(probe.reason, HasSubstr("CUDA_VISIBLE_DEVICES=-1"));
}

// Fails if queries stop working in a forked child.
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
