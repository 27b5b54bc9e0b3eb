#include "anyaccel/sdk/registration.h"
#include "anyaccel/sim.h"
#include "backends/sim/backend.h"
#include "backends/sim/options.h"
#include "backends/sim/runtime.h"
#include "backends/sim/traits.h"
#include "base/env.h"
#include "core/registry.h"

namespace anyaccel::backends::sim {

namespace {

using anyaccel::sim::Options;

std::string described(const Options& options) {
  const int count = visible_count(options);
  return "simulated: " + std::to_string(count) + (count == 1 ? " device of " : " devices of ") +
         std::to_string(options.memory >> 20) + " MiB" + visible_text(options);
}

sdk::Probe probe() {
  const auto options = anyaccel::sim::options_from_environment();
  return {.device_count = visible_count(options), .reason = described(options)};
}

/// Sets the probe result of the backend that the simulator stands in for. The backend's own probe
/// would find no device files.
void stand_in(const std::string& name) {
  try {
    const auto options = anyaccel::sim::options_from_environment();
    // If no device is visible, torch is left without devices of the type.
    if (visible_count(options) > 0) anyaccel::sim::install(options);
    // Once a device has been used, the earlier selection stays in effect.
    const auto& chosen = visible_count(options) > 0 ? runtime().options : options;
    answer_probe(name, {.device_count = visible_count(chosen),
                        .reason = described(chosen) + ", by SIM_STANDS_IN_FOR"});
  } catch (const std::exception& error) {
    answer_probe(name, {.device_count = 0, .reason = error.what()});
  }
}

}  // namespace

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<SimBackend>(); },
                              .probe = probe});
  if (const auto name = env("SIM_STANDS_IN_FOR")) stand_in(*name);
}

}  // namespace anyaccel::backends::sim
