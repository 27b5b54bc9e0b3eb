// The hostcard backend: the parts that AnyAccel's generic backend cannot know.
#pragma once

#include <anyaccel/sdk/torch_backend.h>

namespace hostcard_backend {

/// Everything else (devices, streams, events, memory, generators) goes through torch's interfaces,
/// which device/ has.
class HostcardBackend final : public anyaccel::sdk::TorchBackend {
 public:
  using TorchBackend::TorchBackend;
  anyaccel::DeviceProperties properties(anyaccel::DeviceIndex index) const override;
  anyaccel::DtypeSupport dtype_support(anyaccel::DeviceIndex index,
                                       c10::ScalarType dtype) const override;
  /// None: host memory is the device's memory. A real device leaves this out and gives torch its
  /// pinned memory by getPinnedMemoryAllocator() of the hooks.
  c10::Allocator* host_allocator() const override { return nullptr; }
};

}  // namespace hostcard_backend
