#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/nvml.h"
#include "backends/cuda/traits.h"

namespace anyaccel::backends::cuda {

namespace {

/// If NVML works, its count is final: to confirm a count of zero, torch would initialize the
/// driver.
sdk::Probe probe() {
  const auto counted = traits().probe();
  if (counted.device_count == 0 && Nvml::instance().reason().empty()) return counted;
  return sdk::probe_torch_device(traits());
}

}  // namespace

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<CudaBackend>(); },
                              .probe = probe});
}

}  // namespace anyaccel::backends::cuda
