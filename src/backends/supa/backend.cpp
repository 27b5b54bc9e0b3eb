#include "backends/supa/backend.h"

#include "backends/supa/traits.h"

namespace anyaccel::backends::supa {

SupaBackend::SupaBackend() : TorchBackend(supa::traits()) {}

DeviceProperties SupaBackend::properties(DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  properties.vendor = "Biren";
  properties.triton = true;
  return properties;
}

}  // namespace anyaccel::backends::supa
