// The generic backend: implements all interfaces through c10 for any device type that is registered
// with torch. Vendor backends derive from it and override the functions that c10 cannot implement
// generically.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/backend.h"

namespace anyaccel::sdk {

/// Generic backend over c10. Requires a device guard for the device type. Uses allocator
/// statistics, the host allocator, generators and graphs if torch provides them for the type. If
/// torch does not, the functions that depend on them throw `unsupported`.
class ANYACCEL_API TorchBackend : public Backend {
 public:
  /// Create a backend for the traits' device type. Throws `unavailable` if this process's LibTorch
  /// has no device guard for it.
  explicit TorchBackend(Traits traits);

  DeviceIndex device_count() const noexcept override;
  DeviceIndex current_device() const override;
  void set_device(DeviceIndex index) override;
  void synchronize(DeviceIndex index) override;
  bool is_initialized() const noexcept override;
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;
  at::Generator default_generator(DeviceIndex index) const override;
  Stream current_stream(DeviceIndex index) const override;
  void set_stream(const Stream& stream) override;
  Stream default_stream(DeviceIndex index) const override;
  Stream new_stream(DeviceIndex index, int priority) override;
  std::shared_ptr<EventImpl> new_event(DeviceIndex index, bool enable_timing) override;
  MemoryStats memory_stats(DeviceIndex index) const override;
  MemoryInfo memory_info(DeviceIndex index) const override;
  void reset_peak_memory_stats(DeviceIndex index) override;
  void empty_cache() override;
  c10::Allocator* host_allocator() const override;
  std::shared_ptr<GraphImpl> new_graph() override;
  bool is_current_stream_capturing() const override;

 protected:
  /// Initialize the device in torch (`lazyInitDevice`). Cheap after the first call.
  void start() const;
  /// Return the device as a torch::Device.
  c10::Device torch_device(DeviceIndex index) const;
};

/// Count the devices of a type in the same way as the registry: with the traits' probe if there is
/// one, otherwise with torch's device guard. Returns 0 with the reason if this process's LibTorch
/// has no device guard for the type.
ANYACCEL_API Probe probe_torch_device(const Traits& traits) noexcept;

}  // namespace anyaccel::sdk
