#include "backend.h"

#include "device/runtime.h"

namespace ocl_backend {

anyaccel::DeviceProperties OclBackend::properties(anyaccel::DeviceIndex index) const {
  auto properties = TorchBackend::properties(index);
  const auto& info = device_info(index);
  properties.name = info.name;
  properties.vendor = info.vendor;
  properties.driver_version = info.driver;
  properties.multi_processor_count = info.compute_units;
  return properties;
}

anyaccel::DtypeSupport OclBackend::dtype_support(anyaccel::DeviceIndex index,
                                                 c10::ScalarType dtype) const {
  auto support = TorchBackend::dtype_support(index, dtype);
  // Neither the kernels nor the CPU kernels of the fallback support arithmetic on these dtypes.
  if (dtype == c10::kDouble && !device_info(index).fp64) support.fast = false;
  if (dtype == c10::kUInt16 || dtype == c10::kUInt32 || dtype == c10::kUInt64)
    support.computable = support.fast = support.reducible = false;
  return support;
}

}  // namespace ocl_backend
