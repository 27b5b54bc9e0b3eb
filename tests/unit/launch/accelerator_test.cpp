// Tests how the launcher selects the accelerator: the one that the user names, or the best one on
// the machine, restricted by the visible-devices variables.
#include "launch/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "anyaccel/error.h"
#include "base/built_traits.h"

namespace anyaccel::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A fake machine with three devices of one vendor, represented by files in a temporary folder.
class LaunchAccelerator : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "launch_devices_" + std::to_string(::getpid());
    std::filesystem::create_directories(root_ / "dev");
    for (const char* name : {"davinci0", "davinci1", "davinci2"})
      std::ofstream(root_ / "dev" / name) << "";
    ::setenv("ANYACCEL_DEVICE_ROOT", root_.c_str(), 1);
    for (const char* name :
         {"DS_ACCELERATOR", "ANYACCEL_STRICT", kVisible, "SIM_DEVICES", "SIM_STANDS_IN_FOR"})
      ::unsetenv(name);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  static constexpr const char* kVisible = "ASCEND_RT_VISIBLE_DEVICES";
  std::filesystem::path root_;
};

ErrorCode code_of(const std::string& name) {
  try {
    find_accelerator(name);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST_F(LaunchAccelerator, NamedWithItsDevices) {
  const auto accelerator = find_accelerator("npu");
  EXPECT_EQ(accelerator.devices, 3);
  EXPECT_FALSE(accelerator.on_cores);
  EXPECT_THAT(visible_slots(accelerator), ElementsAre("0", "1", "2"));
  EXPECT_THAT(accelerator.reason, HasSubstr("selected by DS_ACCELERATOR"));
}

TEST_F(LaunchAccelerator, NamedButMissing) {
  EXPECT_EQ(code_of("mlu"), ErrorCode::unavailable);
  EXPECT_EQ(code_of("nonsense"), ErrorCode::invalid_argument);
}

TEST_F(LaunchAccelerator, HostComputesOnCores) {
  const auto accelerator = find_accelerator(host_traits()->name);
  EXPECT_TRUE(accelerator.on_cores);
  EXPECT_TRUE(accelerator.traits.visible_devices_envs.empty());
}

TEST_F(LaunchAccelerator, BestAvailableByDefault) {
  const auto accelerator = find_accelerator(std::nullopt);
  EXPECT_FALSE(accelerator.on_cores) << accelerator.reason;
  EXPECT_GT(accelerator.devices.value_or(0), 0);
}

TEST_F(LaunchAccelerator, SimulatedDevicesAreCounted) {
  EXPECT_EQ(find_accelerator("sim").devices, 2);
  ::setenv("SIM_DEVICES", "5", 1);
  EXPECT_EQ(find_accelerator("sim").devices, 5);
  ::setenv("SIM_DEVICES", "many", 1);
  EXPECT_EQ(code_of("sim"), ErrorCode::unavailable);
}

// Fails if the launcher searches for the devices that the simulator replaces.
TEST_F(LaunchAccelerator, SimulatorStandsInForVendor) {
  ::setenv("SIM_STANDS_IN_FOR", "mlu", 1);
  ::setenv("SIM_DEVICES", "4", 1);
  EXPECT_EQ(find_accelerator("mlu").devices, 4);
  EXPECT_THAT(find_accelerator("mlu").reason, HasSubstr("SIM_STANDS_IN_FOR is set"));
  EXPECT_EQ(find_accelerator("npu").devices, 3);
  ::unsetenv("SIM_STANDS_IN_FOR");
  ::unsetenv("SIM_DEVICES");
  EXPECT_EQ(code_of("mlu"), ErrorCode::unavailable);
}

// DeepSpeed's launcher fails if the visible-devices variable contains device names, and ignores the
// variable if the number of devices is given.
TEST_F(LaunchAccelerator, VisibleDevicesAreTheSlots) {
  ::setenv(kVisible, "0,2", 1);
  EXPECT_THAT(visible_slots(find_accelerator("npu")), ElementsAre("0", "2"));
  EXPECT_THAT(visible_names(find_accelerator("npu"), {"1", "0"}), ElementsAre("2", "0"));
  EXPECT_THROW(visible_names(find_accelerator("npu"), {"2"}), Error);
  ::setenv(kVisible, "1,-1,2", 1);
  EXPECT_THAT(visible_slots(find_accelerator("npu")), ElementsAre("1"));
}

TEST_F(LaunchAccelerator, VisibleByName) {
  JobAccelerator accelerator{.devices = 2};
  accelerator.traits.visible_devices_envs = {"LAUNCH_TEST_VISIBLE"};
  ::setenv("LAUNCH_TEST_VISIBLE", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, MIG-x", 1);
  EXPECT_THAT(visible_slots(accelerator),
              ElementsAre("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "MIG-x"));
  EXPECT_THAT(visible_names(accelerator, {"GPU-of-its-own"}), ElementsAre("GPU-of-its-own"));
  // An alias counts only if the variable itself is not set.
  accelerator.traits.visible_devices_aliases = {"LAUNCH_TEST_ALIAS"};
  ::setenv("LAUNCH_TEST_ALIAS", "2,3", 1);
  EXPECT_THAT(visible_slots(accelerator), testing::Contains("MIG-x"));
  ::unsetenv("LAUNCH_TEST_VISIBLE");
  EXPECT_THAT(visible_slots(accelerator), ElementsAre("2", "3"));
  ::unsetenv("LAUNCH_TEST_ALIAS");
  ::unsetenv("LAUNCH_TEST_VISIBLE");
  EXPECT_THAT(visible_slots(accelerator), ElementsAre("0", "1"));
}

TEST_F(LaunchAccelerator, UncountableDevicesAreReported) {
  JobAccelerator accelerator;
  accelerator.traits.name = "odd";
  try {
    visible_slots(accelerator);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("--num_accelerators"));
  }
}

}  // namespace
}  // namespace anyaccel::launch
