#include <anyaccel/accelerator.h>
#include <anyaccel/conformance/kit.h>

using anyaccel::conformance::expect_equal;
using anyaccel::conformance::skip;

// Suite, name and grade of the case. The name is a sentence that is true of a correct device.
ANYACCEL_CONFORMANCE_CASE(vendor, names_are_short, recommended) {
  if (accelerator.device_count() > 99) skip("names are long with 100 or more devices");
  expect_equal(accelerator.device_name().size() < 16, true,
               "whether device_name() is shorter than 16 letters");
}

int main(int argc, char** argv) { return anyaccel::conformance::conformance_main(argc, argv); }
