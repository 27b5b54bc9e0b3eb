// Entry points that AnyAccel calls when it loads this library.
#include "anyaccel/sdk/plugin.h"

#include "backend.h"
#include "device/device.h"
#include "device/launch.h"
#include "device/runtime.h"

namespace ocl_backend {
namespace {

void register_plugin(anyaccel::sdk::Plugin& plugin) {
  const auto traits = plugin.traits();
  // Registers the device with torch only when AnyAccel chooses it, because a process has only one
  // PrivateUse1.
  set_source_folder(plugin.folder() + "/ocl/opencl");
  plugin.add_backend(
      [traits] {
        install_device(traits.device_type);
        return std::make_shared<OclBackend>(traits);
      },
      [] {
        anyaccel::sdk::Probe probe;
        probe.device_count = count_devices(probe.reason);
        return probe;
      });
}

}  // namespace
}  // namespace ocl_backend

ANYACCEL_PLUGIN(ocl_backend::register_plugin);
