#include "backends/npu/traits.h"
#include "backends/torch/vendor_library.h"

namespace anyaccel::backends::npu {

void register_backend();

void register_backend() {
  sdk::register_vendor_backend(traits(), {.variable = "ANYACCEL_NPU_LIBRARY",
                                          .file_name = "libtorch_npu.so",
                                          .python_module = "torch.npu",
                                          // torch_npu::init_npu(c10::DeviceIndex): Ascend/pytorch,
                                          // torch_npu/csrc/libs/init_npu.h
                                          .initialize = "_ZN9torch_npu8init_npuEa"});
}

}  // namespace anyaccel::backends::npu
