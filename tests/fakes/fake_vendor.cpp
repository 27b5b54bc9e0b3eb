// A vendor's library that adds a device type to torch when it is opened. FAKE_VENDOR names the type; without it the library
// adds nothing. FAKE_VENDOR_SAW gets the value that PT_HPU_LAZY_ACC_PAR_MODE had at that time.
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
