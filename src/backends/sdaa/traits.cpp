#include "backends/sdaa/traits.h"

#include "base/device_files.h"

namespace anyaccel::backends::sdaa {

namespace {

// /dev/tcaicard<N>: Tecorigin ModelZoo, PyTorch models, "docker run ... --device /dev/tcaicard0".
sdk::Probe probe() noexcept {
  return probe_device_files(
      {.folder = "dev", .prefix = "tcaicard", .visible = {"SDAA_VISIBLE_DEVICES"}});
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "sdaa",
      .class_name = "SDAA_Accelerator",
      .device_type = "sdaa",
      .vendor = "Tecorigin",
      .communication_backend = "tccl",
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "aot_eager", "eager"},
      .priority = 74,
      .visible_devices_envs = {"SDAA_VISIBLE_DEVICES"},
      .export_envs = {"NCCL", "LD_LIBRARY", "PATH"},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.sdaa",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::sdaa
