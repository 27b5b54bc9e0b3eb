// The hostcard backend: what AnyAccel's generic backend cannot know about the device.
#pragma once

#include <anyaccel/sdk/torch_backend.h>

namespace hostcard_backend {

/// Everything else (devices, streams, events, memory, generators) goes through torch's interfaces, which device/ has.
class HostcardBackend final : public anyaccel::sdk::TorchBackend {
 public:
  using TorchBackend::TorchBackend;
  anyaccel::DeviceProperties properties(anyaccel::DeviceIndex index) const override;
};

}  // namespace hostcard_backend
