// The hostcard backend: functions that AnyAccel's generic backend cannot provide.
#pragma once

#include <anyaccel/sdk/torch_backend.h>

namespace hostcard_backend {

/// The generic backend implements everything else (devices, streams, events, memory, generators)
/// through torch's interfaces, which device/ implements.
class HostcardBackend final : public anyaccel::sdk::TorchBackend {
 public:
  using TorchBackend::TorchBackend;
  anyaccel::DeviceProperties properties(anyaccel::DeviceIndex index) const override;
  anyaccel::DtypeSupport dtype_support(anyaccel::DeviceIndex index,
                                       c10::ScalarType dtype) const override;
  /// Null: the backend does not pin memory. Keep this override until the hooks in device/hooks.cpp
  /// implement getPinnedMemoryAllocator(), and then remove it. The default calls that function,
  /// which throws if the hooks do not implement it.
  c10::Allocator* host_allocator() const override { return nullptr; }
};

}  // namespace hostcard_backend
