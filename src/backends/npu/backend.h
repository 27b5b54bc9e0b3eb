// The npu backend: a device type that the vendor's library adds to torch.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::npu {

/// See README.md of this folder for what differs from the generic backend.
class NpuBackend final : public sdk::TorchBackend {
 public:
  NpuBackend();
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;
};

}  // namespace anyaccel::backends::npu
