// The ocl backend: functions that AnyAccel's generic backend cannot provide.
#pragma once

#include <anyaccel/sdk/torch_backend.h>

namespace ocl_backend {

/// The generic backend implements everything else (devices, streams, events, memory, generators)
/// through torch's interfaces, which device/ implements.
class OclBackend final : public anyaccel::sdk::TorchBackend {
 public:
  using TorchBackend::TorchBackend;
  anyaccel::DeviceProperties properties(anyaccel::DeviceIndex index) const override;
  anyaccel::DtypeSupport dtype_support(anyaccel::DeviceIndex index,
                                       c10::ScalarType dtype) const override;
};

}  // namespace ocl_backend
