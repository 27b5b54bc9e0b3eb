#include "backend.h"

namespace hostcard_backend {

anyaccel::DeviceProperties HostcardBackend::properties(anyaccel::DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  properties.name = "Hostcard";
  properties.multi_processor_count = 1;
  return properties;
}

anyaccel::DtypeSupport HostcardBackend::dtype_support(anyaccel::DeviceIndex index,
                                                      c10::ScalarType dtype) const {
  auto support = TorchBackend::dtype_support(index, dtype);
  // This example runs CPU kernels, which do not support arithmetic on these dtypes.
  if (dtype == c10::kUInt16 || dtype == c10::kUInt32 || dtype == c10::kUInt64)
    support.computable = support.fast = support.reducible = false;
  return support;
}

}  // namespace hostcard_backend
