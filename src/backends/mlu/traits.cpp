#include "backends/mlu/traits.h"

#include "base/device_files.h"

namespace anyaccel::backends::mlu {

namespace {

// /dev/cambricon_dev<N>: github.com/Cambricon/cambricon-k8s-device-plugin,
// device-plugin/pkg/mlu/const.go. torch_mlu (_parse_visible_devices in torch_mlu/mlu/__init__.py)
// defines the order of the variables and how a list is read.
sdk::Probe probe() noexcept {
  return probe_device_files(
      {.folder = "dev",
       .prefix = "cambricon_dev",
       .visible = {"CN_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"},
       .visible_ids = VisibleIds::unique});
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "mlu",
      .class_name = "MLU_Accelerator",
      .device_type = "mlu",
      .vendor = "Cambricon",
      .communication_backend = "cncl",
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "aot_eager", "eager"},
      .triton = true,
      .priority = 76,
      .visible_devices_envs = {"MLU_VISIBLE_DEVICES"},
      .visible_devices_aliases = {"CUDA_VISIBLE_DEVICES"},
      .export_envs = {"NEUWARE_HOME", "CNCL", "LD_LIBRARY", "PATH"},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.mlu",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::mlu
