#include "backends/supa/traits.h"

#include "base/device_files.h"

namespace anyaccel::backends::supa {

namespace {

// /dev/biren/card_<N>: Biren's Kubernetes device plugin mounts "/dev/biren/<id>" with ids card_<N>.
sdk::Probe probe() noexcept {
  return probe_device_files(
      {.folder = "dev/biren", .prefix = "card_", .visible = {"SUPA_VISIBLE_DEVICES"}});
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "supa",
      .class_name = "SUPA_Accelerator",
      .device_type = "supa",
      .vendor = "Biren",
      .communication_backend = "bccl",
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "aot_eager", "eager"},
      .triton = true,
      .priority = 90,  // above cuda, because torch_supa imitates torch.cuda
      .visible_devices_envs = {"SUPA_VISIBLE_DEVICES"},
      .export_envs = {"BCCL", "BIREN", "SUPA", "LD_LIBRARY", "PATH"},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.supa",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::supa
