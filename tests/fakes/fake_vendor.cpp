// A vendor's library that adds a device type to torch when it is loaded, if FAKE_VENDOR names one.
// At the same time, it stores the value of PT_HPU_LAZY_ACC_PAR_MODE in FAKE_VENDOR_SAW.
#include <cstdlib>

#include "unit/support/test_device.h"

namespace {
[[maybe_unused]] const bool added = [] {
  const char* mode = std::getenv("PT_HPU_LAZY_ACC_PAR_MODE");
  setenv("FAKE_VENDOR_SAW", mode != nullptr ? mode : "unset", 1);
  if (const char* name = std::getenv("FAKE_VENDOR")) anyaccel::test::install_test_device(name);
  return true;
}();
}  // namespace
