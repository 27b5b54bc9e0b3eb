#include "backends/sim/traits.h"

#include <cstdlib>
#include <exception>
#include <string>

#include "base/env.h"
#include "base/untrusted_text.h"

namespace anyaccel::backends::sim {

namespace {

constexpr const char* kVisible = "SIM_VISIBLE_DEVICES";

/// For callers that cannot query the simulator itself, such as the launcher.
sdk::Probe probe() noexcept {
  try {
    const long count = env_int("SIM_DEVICES", 1, 16).value_or(2);
    const char* list = std::getenv(kVisible);  // not env(): an empty value hides all devices
    if (list == nullptr) return {static_cast<int>(count), "simulated; SIM_DEVICES sets the number"};
    const int visible = static_cast<int>(select_devices(list, static_cast<int>(count)).size());
    return {visible, std::string("simulated; ") + kVisible + "=" + printable_text(list) +
                         " selects " + std::to_string(visible) + " of " + std::to_string(count)};
  } catch (const std::exception& error) {
    return {0, error.what()};
  }
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "sim",
      .class_name = "SIM_Accelerator",
      .device_type = "sim",
      .communication_backend = "staged",  // torch's gloo only accepts host tensors
      // Inductor cannot generate code for the device.
      .compile_backend = "aot_eager",
      .compile_backends = {"aot_eager", "eager"},
      // Lower than the priority of the CPU, which is always available, so the simulator is selected
      // only by name.
      .priority = -2000,
      .visible_devices_envs = {kVisible},
      .export_envs = {"SIM"},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.cpu",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::sim
