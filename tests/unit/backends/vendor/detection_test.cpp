// Tests accelerator detection on machines with various devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "test_paths.h"
#include "unit/support/cuda_libtorch.h"
#include "unit/support/test_device.h"

namespace anyaccel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DetectionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (registered_backends().size() < 10) GTEST_SKIP() << "this build lacks some backends";
    root_ = fs::temp_directory_path() / ("anyaccel_machine_" + std::to_string(getpid()));
    fs::create_directories(root_);
    setenv("ANYACCEL_DEVICE_ROOT", root_.c_str(), 1);
    setenv("ANYACCEL_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
    for (const char* name : {"DS_ACCELERATOR", "SUPA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                             "FAKE_VENDOR", "ASCEND_RT_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES",
                             "PT_HPU_LAZY_ACC_PAR_MODE", "CN_VISIBLE_DEVICES",
                             "MLU_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES", "FAKE_VENDOR_STARTED"})
      unsetenv(name);
  }
  void TearDown() override {
    if (!root_.empty()) fs::remove_all(root_);
  }

  void add(const std::string& file, const std::string& text = {}) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  static std::string vendor_library() {
    return std::string(ANYACCEL_BUILD_DIR) + "/lib/libfake_vendor.so";
  }
  static BackendVerdict verdict(const std::string& name) {
    for (const auto& verdict : detect().backends)
      if (verdict.name == name) return verdict;
    return {.name = "none", .available = false, .device_count = -1, .reason = "not registered"};
  }

  fs::path root_;
};

// Fails if an installed vendor package or LibTorch without a matching device counts as a device.
TEST_F(DetectionTest, NothingIsDetectedWithoutDevices) {
  setenv("ANYACCEL_NPU_LIBRARY", vendor_library().c_str(), 1);
  setenv("FAKE_VENDOR", "npu", 1);
  EXPECT_FALSE(verdict("npu").available);
  EXPECT_THAT(verdict("npu").reason, HasSubstr("davinci"));
  EXPECT_EQ(std::getenv("FAKE_VENDOR_SAW"), nullptr)
      << "a library was loaded although there is no device";
}

// Fails if a vendor's library is not loaded although the machine has this vendor's devices.
TEST_F(DetectionTest, OpensTheVendorsLibraryForItsDevices) {
  add("dev/davinci0");
  add("dev/davinci1");
  add("dev/davinci_manager");
  setenv("ANYACCEL_NPU_LIBRARY", vendor_library().c_str(), 1);
  setenv("FAKE_VENDOR", "npu", 1);
  ASSERT_EQ(detect().accelerator, "npu") << detect().reason;
  EXPECT_EQ(verdict("npu").device_count, 2);
  EXPECT_EQ(get_accelerator().device_name(), "npu");
  EXPECT_EQ(get_accelerator().communication_backend_name(), "hccl");
}

// Fails if ASCEND_RT_VISIBLE_DEVICES is read differently from torch_npu: an empty list and a list
// that is not in ascending order hide all devices, and other characters end the list.
TEST_F(DetectionTest, ReadsAscendsListLikeItsVendor) {
  for (const char* file : {"dev/davinci0", "dev/davinci1", "dev/davinci2"}) add(file);
  setenv("ANYACCEL_NPU_LIBRARY", vendor_library().c_str(), 1);
  setenv("FAKE_VENDOR", "npu", 1);
  for (const char* list : {"", "1,0", "0,0", "x", "3"}) {
    setenv("ASCEND_RT_VISIBLE_DEVICES", list, 1);
    EXPECT_EQ(verdict("npu").device_count, 0) << list;
  }
  EXPECT_THAT(verdict("npu").reason, HasSubstr("ASCEND_RT_VISIBLE_DEVICES=3"));
  for (const auto& [list, count] : {std::pair{"0,2", 2}, {"1,2,3", 2}, {"0, 1", 1}, {"0,1;2", 2}}) {
    setenv("ASCEND_RT_VISIBLE_DEVICES", list, 1);
    EXPECT_EQ(verdict("npu").device_count, count) << list;
  }
}

// Fails if the variables that select Cambricon's devices are read differently from torch_mlu:
// CN_VISIBLE_DEVICES has priority, repeated entries hide all devices, and entries may be UUIDs.
TEST_F(DetectionTest, ReadsCambriconsListsLikeItsVendor) {
  for (const char* file : {"dev/cambricon_dev0", "dev/cambricon_dev1", "dev/cambricon_dev2"})
    add(file);
  setenv("ANYACCEL_MLU_LIBRARY", vendor_library().c_str(), 1);
  setenv("FAKE_VENDOR", "mlu", 1);
  for (const char* list : {"", "0,0", "-1"}) {
    setenv("MLU_VISIBLE_DEVICES", list, 1);
    EXPECT_EQ(verdict("mlu").device_count, 0) << list;
  }
  const std::string uuid = "MLU-01234567-89ab-cdef-0123-456789abcdef";
  for (const auto& [list, count] :
       {std::pair<std::string, int>{"2,0", 2}, {" 1 , 2 ", 2}, {"0,7,1", 1}, {uuid, 1}}) {
    setenv("MLU_VISIBLE_DEVICES", list.c_str(), 1);
    EXPECT_EQ(verdict("mlu").device_count, count) << list;
  }
  setenv("CN_VISIBLE_DEVICES", "0,1", 1);
  EXPECT_EQ(verdict("mlu").device_count, 2);
  EXPECT_THAT(verdict("mlu").reason, HasSubstr("CN_VISIBLE_DEVICES=0,1"));
  unsetenv("CN_VISIBLE_DEVICES");
  unsetenv("MLU_VISIBLE_DEVICES");
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EQ(verdict("mlu").device_count, 1);
}

// Fails if a program without Python uses Ascend devices before the vendor's library has been
// initialized. Its hooks do nothing in builds for C++ programs, which call torch_npu::init_npu().
TEST_F(DetectionTest, InitializesAscendWithoutPython) {
  add("dev/davinci0");
  setenv("ANYACCEL_NPU_LIBRARY", vendor_library().c_str(), 1);
  setenv("FAKE_VENDOR", "npu", 1);
  ASSERT_EQ(detect().accelerator, "npu") << detect().reason;
  EXPECT_EQ(get_accelerator().device_count(), 2);
  EXPECT_EQ(std::getenv("FAKE_VENDOR_STARTED"), nullptr) << "counting devices starts the runtime";
  get_accelerator().set_device(1);
  EXPECT_STREQ(std::getenv("FAKE_VENDOR_STARTED"), "1");
}

// Fails if devices are selected without a library that supports them, or the reason does not
// describe the problem with the library.
TEST_F(DetectionTest, ReasonNamesTheMissingLibrary) {
  add("dev/cambricon_dev0");
  setenv("ANYACCEL_MLU_LIBRARY", "/nonexistent/libtorch_mlu.so", 1);
  EXPECT_FALSE(verdict("mlu").available);
  EXPECT_THAT(verdict("mlu").reason, HasSubstr("ANYACCEL_MLU_LIBRARY"));
  setenv("ANYACCEL_MLU_LIBRARY", vendor_library().c_str(), 1);
  EXPECT_THAT(verdict("mlu").reason, HasSubstr("did not add the device type 'mlu'"));
}

// Fails if Gaudi's environment variables are set only after its PyTorch bridge has read them.
TEST_F(DetectionTest, SetsGaudisVariablesBeforeItsBridgeStarts) {
  add("sys/class/accel/accel0/device/vendor", "0x1da3\n");
  add("sys/class/accel/accel1/device/vendor", "0x1da3\n");
  add("sys/class/accel/accel2/device/vendor", "0x8086\n");
  setenv("HABANA_VISIBLE_MODULES", "6,7", 1);
  setenv("ANYACCEL_HPU_LIBRARY", vendor_library().c_str(), 1);
  setenv("FAKE_VENDOR", "hpu", 1);
  ASSERT_EQ(detect().accelerator, "hpu") << detect().reason;
  EXPECT_EQ(verdict("hpu").device_count, 2);
  EXPECT_STREQ(std::getenv("FAKE_VENDOR_SAW"), "0");
}

// Fails if Kunlun, which imitates CUDA, is detected as CUDA.
TEST_F(DetectionTest, KunlunIsDetectedBeforeCuda) {
  add("dev/xpu0");
  add("dev/xpuctrl");
  ANYACCEL_SKIP_IF_TAKEN("cuda");
  test::install_test_device("cuda", 1);
  ASSERT_EQ(detect().accelerator, "klxpu") << detect().reason;
  auto& accelerator = get_accelerator();
  EXPECT_EQ(accelerator.device_name(), "cuda");
  EXPECT_TRUE(accelerator.use_host_timers());
  EXPECT_FALSE(accelerator.is_triton_supported());
  EXPECT_FALSE(accelerator.supports_nvtx_domain());
  EXPECT_EQ(accelerator.device_properties().vendor, "Kunlunxin");
}

// Fails if XPU_VISIBLE_DEVICES, which Kunlun's own software sets, is ignored, or has priority over
// CUDA_VISIBLE_DEVICES, which launchers set.
TEST_F(DetectionTest, KunlunHasTwoListsOfDevices) {
  for (const char* file : {"dev/xpu0", "dev/xpu1", "dev/xpu2"}) add(file);
  ANYACCEL_SKIP_IF_TAKEN("cuda");
  test::install_test_device("cuda", 1);
  setenv("XPU_VISIBLE_DEVICES", "0,1", 1);
  EXPECT_EQ(verdict("klxpu").device_count, 2);
  setenv("CUDA_VISIBLE_DEVICES", "2", 1);
  EXPECT_EQ(verdict("klxpu").device_count, 1);
}

// Fails if a CUDA device is detected as Kunlun, which imitates CUDA.
TEST_F(DetectionTest, CudaIsNotMistakenForKunlun) {
  ANYACCEL_SKIP_IF_TAKEN("cuda");
  test::install_test_device("cuda", 1);
  EXPECT_EQ(detect().accelerator, "cuda") << detect().reason;
}

// Fails if XPU_EVENT_KL3_ENABLE does not enable timing with events on Kunlun.
TEST_F(DetectionTest, KunlunTimesWithEventsOnRequest) {
  add("dev/xpu0");
  setenv("XPU_EVENT_KL3_ENABLE", "1", 1);
  ANYACCEL_SKIP_IF_TAKEN("cuda");
  test::install_test_device("cuda", 1);
  EXPECT_FALSE(get_accelerator().use_host_timers());
}

// Fails if Biren, which imitates torch.cuda, is probed after CUDA.
TEST_F(DetectionTest, BirenIsProbedFirst) {
  add("dev/biren/card_0");
  setenv("ANYACCEL_SUPA_LIBRARY", vendor_library().c_str(), 1);
  setenv("FAKE_VENDOR", "supa", 1);
  EXPECT_EQ(detect().backends.front().name, "supa");
  ASSERT_EQ(detect().accelerator, "supa") << detect().reason;
  EXPECT_EQ(get_accelerator().communication_backend_name(), "bccl");
  EXPECT_TRUE(get_accelerator().is_triton_supported());
}

// Fails if the device count is the number of render nodes. A mask may hide devices, and one GPU may
// count as several devices.
TEST_F(DetectionTest, TorchCountsIntelsDevices) {
  for (const char* node : {"renderD128", "renderD129"})
    add("sys/class/drm/" + std::string(node) + "/device/vendor", "0x8086\n");
  add("sys/class/drm/renderD130/device/vendor", "0x10de\n");
  EXPECT_FALSE(verdict("xpu").available);  // this LibTorch does not support xpu
  EXPECT_THAT(verdict("xpu").reason, HasSubstr("does not support it"));
  auto& device = test::install_test_device("xpu", 3);
  EXPECT_EQ(verdict("xpu").device_count, 3);
  device.count = 0;
  EXPECT_FALSE(verdict("xpu").available);
  EXPECT_THAT(verdict("xpu").reason, HasSubstr("ZE_AFFINITY_MASK"));
}

}  // namespace
}  // namespace anyaccel
