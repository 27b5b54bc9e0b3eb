#include "backends/cuda/traits.h"

namespace anyaccel::backends::cuda {

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "cuda",
      .class_name = "CUDA_Accelerator",
      .device_type = "cuda",
      .vendor = "NVIDIA",
#ifdef _WIN32
      .communication_backend = "gloo",
#else
      .communication_backend = "nccl",
#endif
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "cudagraphs", "aot_eager", "eager", "openxla", "tvm"},
      .supports_nvtx_domain = true,
      .priority = 60,
      .visible_devices_envs = {"CUDA_VISIBLE_DEVICES"},
      .export_envs = {"NCCL"},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder",
      .probe = probe_devices,
  };
  return instance;
}

}  // namespace anyaccel::backends::cuda
