#include "anyaccel/registry.h"
#include "backends/sdaa/backend.h"
#include "backends/sdaa/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::sdaa {

void register_backend();

void register_backend() {
  anyaccel::register_backend(
      {.traits = traits(),
       .create = [] { return std::make_shared<SdaaBackend>(); },
       .probe =
           [] {
             return sdk::probe_vendor_device(traits(), {"ANYACCEL_SDAA_LIBRARY", "libtorch_sdaa.so"});
           }});
}

}  // namespace anyaccel::backends::sdaa
