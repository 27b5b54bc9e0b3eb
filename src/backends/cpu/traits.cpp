#include "backends/cpu/traits.h"

namespace anyaccel::backends::cpu {

const sdk::Traits& traits() {
  static const sdk::Traits instance = [] {
    sdk::Traits traits;
    traits.name = "cpu";
    traits.class_name = "CPU_Accelerator";
    traits.device_type = "cpu";
    traits.communication_backend = "gloo";
    traits.compile_backends = {"inductor", "eager", "aot_eager", "openxla", "tvm"};
    traits.synchronized = true;
    traits.use_host_timers = true;
    traits.resolves_data_dependency = true;
    traits.handles_memory_backpressure = true;
    traits.indexed_names = false;
    // Lower than all other backends, including those that users register with the default priority,
    // because the CPU is always available.
    traits.priority = -1000;
    traits.op_builder_dir = "deepspeed.ops.op_builder.cpu";
    return traits;
  }();
  return instance;
}

}  // namespace anyaccel::backends::cpu
