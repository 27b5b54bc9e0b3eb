// Entry points that AnyAccel calls when it loads this library.
#include "anyaccel/sdk/plugin.h"

#include "backend.h"
#include "device/device.h"

namespace hostcard_backend {
namespace {

void register_plugin(anyaccel::sdk::Plugin& plugin) {
  const auto traits = plugin.traits();
  // Registers the device with torch only when AnyAccel chooses it, because a process has only one
  // PrivateUse1.
  plugin.add_backend([traits] {
    install_device(traits.device_type);
    return std::make_shared<HostcardBackend>(traits);
  });
  // The op's sources are next to the plugin, not in AnyAccel's installation.
  const auto axpy = plugin.folder() + "/hostcard/kernels/axpy.op";
  plugin.add_op_builder("AxpyBuilder", [axpy] { return anyaccel::sdk::make_op_builder(axpy); });
}

}  // namespace
}  // namespace hostcard_backend

ANYACCEL_PLUGIN(hostcard_backend::register_plugin);
