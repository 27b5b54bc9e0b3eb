#include "anyaccel/registry.h"
#include "backends/supa/backend.h"
#include "backends/supa/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::supa {

void register_backend();

void register_backend() {
  anyaccel::register_backend(
      {.traits = traits(),
       .create = [] { return std::make_shared<SupaBackend>(); },
       .probe =
           [] {
             return sdk::probe_vendor_device(traits(), {"ANYACCEL_SUPA_LIBRARY", "libtorch_supa.so"});
           }});
}

}  // namespace anyaccel::backends::supa
