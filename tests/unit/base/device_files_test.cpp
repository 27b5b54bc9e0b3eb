#include "base/device_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace anyaccel {
namespace {

namespace fs = std::filesystem;

class DeviceFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("anyaccel_devices_" + std::to_string(getpid()));
    fs::create_directories(root_);
    setenv("ANYACCEL_DEVICE_ROOT", root_.c_str(), 1);
    unsetenv("TEST_VISIBLE");
  }
  void TearDown() override { fs::remove_all(root_); }

  void add(const fs::path& file, const std::string& text = {}) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  fs::path root_;
};

// Fails if a file whose name is not the prefix followed by a number, such as davinci_manager,
// counts as a device.
TEST_F(DeviceFilesTest, CountsNumberedFilesOnly) {
  for (const char* name : {"dev/acc0", "dev/acc1", "dev/acc10", "dev/acc_manager", "dev/acc",
                           "dev/acc1x", "dev/other2"})
    add(name);
  EXPECT_EQ(numbered_files(root_ / "dev", "acc"), (std::vector<int>{0, 1, 10}));
  EXPECT_EQ(probe_device_files({.folder = "dev", .prefix = "acc"}).device_count, 3);
}

// Fails if a device of another vendor in the same sysfs class is counted.
TEST_F(DeviceFilesTest, ChecksTheVendor) {
  add("sys/class/accel/accel0/device/vendor", "0x1da3\n");
  add("sys/class/accel/accel1/device/vendor", "0x8086\n");
  const auto probe = probe_device_files({.folder = "sys/class/accel",
                                         .prefix = "accel",
                                         .attribute = "device/vendor",
                                         .attribute_value = "0x1da3"});
  EXPECT_EQ(probe.device_count, 1);
  EXPECT_NE(probe.reason.find("0x1da3"), std::string::npos);
}

// Fails if the variable that selects visible devices is ignored.
TEST_F(DeviceFilesTest, HonorsVisibleDevices) {
  for (const char* name : {"dev/acc0", "dev/acc1", "dev/acc2"}) add(name);
  const DeviceFiles files{.folder = "dev", .prefix = "acc", .visible = {"TEST_VISIBLE"}};
  setenv("TEST_VISIBLE", "2,0", 1);
  EXPECT_EQ(probe_device_files(files).device_count, 2);
  setenv("TEST_VISIBLE", "-1", 1);
  const auto none = probe_device_files(files);
  EXPECT_EQ(none.device_count, 0);
  EXPECT_NE(none.reason.find("TEST_VISIBLE=-1"), std::string::npos) << none.reason;
}

// Fails if a missing folder throws, or the lack of devices is reported without a reason.
TEST_F(DeviceFilesTest, MissingFolderMeansNoDevices) {
  const auto probe = probe_device_files({.folder = "dev/vendor", .prefix = "card_"});
  EXPECT_EQ(probe.device_count, 0);
  EXPECT_NE(probe.reason.find("no file matches"), std::string::npos);
}

// Fails if parsing continues after the first invalid or repeated entry.
TEST(CountVisible, EndsAtTheFirstInvalidEntry) {
  EXPECT_EQ(count_visible("0,1", 4, VisibleIds::indices), 2);
  EXPECT_EQ(count_visible(" 0 , 3 ", 4, VisibleIds::indices), 2);
  EXPECT_EQ(count_visible("0,4,1", 4, VisibleIds::indices), 1);
  EXPECT_EQ(count_visible("0,0,1", 4, VisibleIds::indices), 1);
  EXPECT_EQ(count_visible("0,,1", 4, VisibleIds::indices), 1);
  EXPECT_EQ(count_visible("x", 4, VisibleIds::indices), 0);
  EXPECT_EQ(count_visible("99999999999999999999", 4, VisibleIds::indices), 0);
  // In a container, module ids may exceed the number of visible devices.
  EXPECT_EQ(count_visible("4,5,6,7", 4, VisibleIds::opaque), 4);
  EXPECT_EQ(count_visible("4,5", 4, VisibleIds::opaque), 2);
  EXPECT_EQ(count_visible("1,2,3", 2, VisibleIds::opaque), 2);
}

// Fails if a repeated entry is only noticed before the first entry that is out of range.
TEST(CountVisible, UniqueListsAreCheckedCompletely) {
  EXPECT_EQ(count_visible("0,7,1", 4, VisibleIds::unique), 1);
  EXPECT_EQ(count_visible("0,7,0", 4, VisibleIds::unique), 0);
  const std::string first = "MLU-01234567-89ab-cdef-0123-456789abcdef";
  const std::string second = "MLU-11234567-89ab-cdef-0123-456789abcdef";
  EXPECT_EQ(count_visible(first + "," + second, 4, VisibleIds::unique), 2);
  EXPECT_EQ(count_visible(first + "," + first, 4, VisibleIds::unique), 0);
  EXPECT_EQ(count_visible(first + ",0", 4, VisibleIds::unique), 1);
}

// Fails if a list that ends in a separator or starts with one is read differently from torch_npu.
TEST(CountVisible, AscendingListsEndAtOtherCharacters) {
  EXPECT_EQ(count_visible("0,2,", 4, VisibleIds::ascending), 2);
  EXPECT_EQ(count_visible(",1", 4, VisibleIds::ascending), 0);
  EXPECT_EQ(count_visible("0,1a,2", 4, VisibleIds::ascending), 2);
  EXPECT_EQ(count_visible("0,2,1", 4, VisibleIds::ascending), 0);
  EXPECT_EQ(count_visible("0,4,1", 4, VisibleIds::ascending), 1);
}

}  // namespace
}  // namespace anyaccel
