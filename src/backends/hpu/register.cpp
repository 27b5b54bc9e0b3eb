#include "anyaccel/sdk/registration.h"
#include "backends/hpu/backend.h"
#include "backends/hpu/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::hpu {

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<HpuBackend>(); },
                              .probe =
                                  [] {
                                    return sdk::probe_vendor_device(
                                        traits(),
                                        {"ANYACCEL_HPU_LIBRARY", "libhabana_pytorch_plugin.so"});
                                  }});
}

}  // namespace anyaccel::backends::hpu
