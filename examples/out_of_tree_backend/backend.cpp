#include "backend.h"

namespace hostcard_backend {

anyaccel::DeviceProperties HostcardBackend::properties(anyaccel::DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  properties.name = "Hostcard";
  properties.multi_processor_count = 1;
  return properties;
}

}  // namespace hostcard_backend
