#include "backends/klxpu/traits.h"

#include "base/device_files.h"

namespace anyaccel::backends::klxpu {

namespace {

// /dev/xpu<N> next to /dev/xpuctrl: PaddlePaddle's guide for Kunlun XPU, "docker run
// --device=/dev/xpu0 ...". baidu/vLLM-Kunlun sets XPU_VISIBLE_DEVICES (setup_env.sh).
sdk::Probe probe() noexcept {
  return probe_device_files({.folder = "dev",
                             .prefix = "xpu",
                             .visible = {"CUDA_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES"}});
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "klxpu",
      .class_name = "KLXPU_Accelerator",
      .device_type = "cuda",
      .vendor = "Kunlunxin",
      .communication_backend = "nccl",
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "aot_eager", "eager"},
      .use_host_timers = true,  // overridden by XPU_EVENT_KL3_ENABLE=1; see backend.cpp
      .priority = 85,           // above cuda, because torch_xmlir uses torch's CUDA device type
      .visible_devices_envs = {"CUDA_VISIBLE_DEVICES"},
      .visible_devices_aliases = {"XPU_VISIBLE_DEVICES"},
      .export_envs = {"BKCL", "XPU", "XMLIR", "LD_LIBRARY", "PATH"},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.klxpu",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::klxpu
