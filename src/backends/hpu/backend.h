// The hpu backend: Intel Gaudi through the vendor's PyTorch bridge.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::hpu {

/// README.md describes the differences from the generic backend.
class HpuBackend final : public sdk::TorchBackend {
 public:
  HpuBackend();
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;
  void empty_cache() override;
};

}  // namespace anyaccel::backends::hpu
