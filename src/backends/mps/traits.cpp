#include "backends/mps/traits.h"

namespace anyaccel::backends::mps {

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "mps",
      .class_name = "MPS_Accelerator",
      .device_type = "mps",
      .vendor = "Apple",
      // torch's gloo only accepts host tensors, and Apple has no communication library.
      .communication_backend = "staged",
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "aot_eager", "eager"},
      .synchronized =
          true,  // one queue, no user streams: programs cannot observe out-of-order execution
      .use_host_timers = true,
      .resolves_data_dependency = true,
      .handles_memory_backpressure = true,
      .fp64 = false,  // Metal does not support double
      .priority = 40,
      .visible_devices_envs = {},  // a machine has one device
      .export_envs = {},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.mps",
      .probe = nullptr,  // only Metal reports devices, so torch is queried
  };
  return instance;
}

}  // namespace anyaccel::backends::mps
