#include "anyaccel/registry.h"
#include "backends/mlu/backend.h"
#include "backends/mlu/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::mlu {

void register_backend();

void register_backend() {
  anyaccel::register_backend(
      {.traits = traits(),
       .create = [] { return std::make_shared<MluBackend>(); },
       .probe =
           [] {
             return sdk::probe_vendor_device(traits(), {"ANYACCEL_MLU_LIBRARY", "libtorch_mlu.so"});
           }});
}

}  // namespace anyaccel::backends::mlu
