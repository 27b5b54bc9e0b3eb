#include "anyaccel/registry.h"
#include "backends/npu/backend.h"
#include "backends/npu/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::npu {

void register_backend();

void register_backend() {
  anyaccel::register_backend(
      {.traits = traits(),
       .create = [] { return std::make_shared<NpuBackend>(); },
       .probe =
           [] {
             return sdk::probe_vendor_device(traits(), {"ANYACCEL_NPU_LIBRARY", "libtorch_npu.so"});
           }});
}

}  // namespace anyaccel::backends::npu
