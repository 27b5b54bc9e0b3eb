#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/klxpu/backend.h"
#include "backends/klxpu/traits.h"

namespace anyaccel::backends::klxpu {

namespace {

/// Another vendor's PyTorch port may use the same torch device type, so only the driver's device
/// files identify the vendor.
sdk::Probe probe() {
  const auto files = traits().probe();
  return files.device_count > 0 ? sdk::probe_torch_device(traits()) : files;
}

}  // namespace

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<KlxpuBackend>(); },
                              .probe = probe});
}

}  // namespace anyaccel::backends::klxpu
