// The sdaa backend: a device type that the vendor's library adds to torch.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::sdaa {

/// See README.md of this folder for what differs from the generic backend.
class SdaaBackend final : public sdk::TorchBackend {
 public:
  SdaaBackend();
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;
};

}  // namespace anyaccel::backends::sdaa
