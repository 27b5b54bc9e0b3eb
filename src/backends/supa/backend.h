// The supa backend: a device type that the vendor's library adds to torch.
#pragma once

#include "anyaccel/sdk/torch_backend.h"

namespace anyaccel::backends::supa {

/// See README.md of this folder for what differs from the generic backend.
class SupaBackend final : public sdk::TorchBackend {
 public:
  SupaBackend();
  DeviceProperties properties(DeviceIndex index) const override;
};

}  // namespace anyaccel::backends::supa
