#include "backend.h"

#include "device/runtime.h"

namespace ocl_backend {

anyaccel::DeviceProperties OclBackend::properties(anyaccel::DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  properties.name = device_info(index).name;
  properties.multi_processor_count = device_info(index).compute_units;
  return properties;
}

anyaccel::DtypeSupport OclBackend::dtype_support(anyaccel::DeviceIndex index,
                                                 c10::ScalarType dtype) const {
  auto support = TorchBackend::dtype_support(index, dtype);
  // This example runs CPU kernels, which do not support arithmetic on these dtypes.
  if (dtype == c10::kUInt16 || dtype == c10::kUInt32 || dtype == c10::kUInt64)
    support.computable = support.fast = support.reducible = false;
  return support;
}

}  // namespace ocl_backend
