#include <c10/core/impl/VirtualGuardImpl.h>

#include "anyaccel/sdk/registration.h"
#include "anyaccel/sdk/torch_backend.h"
#include "backends/xpu/backend.h"
#include "backends/xpu/traits.h"

namespace anyaccel::backends::xpu {

namespace {

/// The device files show whether there is a GPU. Only torch knows the number of devices, which
/// depends on tiles, ZE_AFFINITY_MASK and integrated graphics. Torch counts without creating a
/// context.
sdk::Probe probe() {
  auto found = sdk::probe_torch_device(traits());
  if (found.device_count == 0) return found;
  found.device_count = c10::impl::VirtualGuardImpl(c10::DeviceType::XPU).deviceCount();
  found.reason += found.device_count > 0
                      ? ", of which torch uses " + std::to_string(found.device_count)
                      : ", but torch can use none of them (ZE_AFFINITY_MASK may hide them)";
  return found;
}

}  // namespace

void register_backend();

void register_backend() {
  anyaccel::register_backend({.traits = traits(),
                              .create = [] { return std::make_shared<XpuBackend>(); },
                              .probe = probe});
}

}  // namespace anyaccel::backends::xpu
