#include "backends/npu/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::npu {

void register_backend();

void register_backend() {
  sdk::register_vendor_backend(traits(), {"ANYACCEL_NPU_LIBRARY", "libtorch_npu.so", "torch.npu"});
}

}  // namespace anyaccel::backends::npu
