// A fake vendor library. When it is loaded, it adds the device type that FAKE_VENDOR names to
// torch (PrivateUse1 without a name if it is empty), and sets FAKE_VENDOR_SAW to the current value
// of PT_HPU_LAZY_ACC_PAR_MODE. Like Huawei's library, it has an initialization function; the fake
// one sets FAKE_VENDOR_STARTED to its argument.
#include <cstdlib>
#include <string>

#include "unit/support/test_device.h"

namespace {
[[maybe_unused]] const bool added = [] {
  const char* mode = std::getenv("PT_HPU_LAZY_ACC_PAR_MODE");
  setenv("FAKE_VENDOR_SAW", mode != nullptr ? mode : "unset", 1);
  if (const char* name = std::getenv("FAKE_VENDOR"))
    anyaccel::test::install_test_device(name).minimal_allocator =
        std::getenv("FAKE_VENDOR_MINIMAL_ALLOCATOR") != nullptr;
  return true;
}();
}  // namespace

namespace torch_npu {
__attribute__((visibility("default"))) void init_npu(c10::DeviceIndex device);
void init_npu(c10::DeviceIndex device) {
  setenv("FAKE_VENDOR_STARTED", std::to_string(static_cast<int>(device)).c_str(), 1);
}
}  // namespace torch_npu
