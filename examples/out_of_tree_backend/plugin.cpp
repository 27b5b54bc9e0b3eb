// What AnyAccel calls when it opens this library.
#include "anyaccel/sdk/plugin.h"

#include "backend.h"
#include "device/device.h"
#include "ops/axpy_builder.h"

namespace hostcard_backend {
namespace {

void register_plugin(anyaccel::sdk::Plugin& plugin) {
  const auto traits = plugin.traits();
  // The device is added to torch when it is chosen and not before: a process has one PrivateUse1.
  plugin.add_backend([traits] {
    install_device(traits.device_type);
    return std::make_shared<HostcardBackend>(traits);
  });
  const auto kernels = plugin.folder() + "/hostcard/kernels";
  plugin.add_op_builder("AxpyBuilder", [kernels] { return std::make_shared<AxpyBuilder>(kernels); });
}

}  // namespace
}  // namespace hostcard_backend

ANYACCEL_PLUGIN(hostcard_backend::register_plugin);
