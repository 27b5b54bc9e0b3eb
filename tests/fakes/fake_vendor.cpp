// A fake vendor library. When it is loaded, it adds the device type that FAKE_VENDOR names to
// torch (PrivateUse1 without a name if it is empty), and sets FAKE_VENDOR_SAW to the current value
// of PT_HPU_LAZY_ACC_PAR_MODE.
#include <cstdlib>

#include "unit/support/test_device.h"

namespace {
[[maybe_unused]] const bool added = [] {
  const char* mode = std::getenv("PT_HPU_LAZY_ACC_PAR_MODE");
  setenv("FAKE_VENDOR_SAW", mode != nullptr ? mode : "unset", 1);
  if (const char* name = std::getenv("FAKE_VENDOR"))
    anyaccel::test::install_test_device(name).queries =
        std::getenv("FAKE_VENDOR_WITHOUT_QUERIES") == nullptr;
  return true;
}();
}  // namespace
