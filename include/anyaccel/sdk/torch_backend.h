// The generic backend: drives any device type that is registered with torch, through c10 alone.
// A vendor backend derives from it and overrides what torch cannot say generically.
#pragma once

#include "anyaccel/export.h"
#include "anyaccel/sdk/backend.h"

namespace anyaccel::sdk {

/// Everything that can be forwarded to torch, once. Needs a device guard registered for the type;
/// features beyond that (allocator statistics, host allocator, generators, graphs) are used where
/// the type has them and refused by name where it has not.
class ANYACCEL_API TorchBackend : public Backend {
 public:
  /// Throws `unavailable` when the LibTorch of this process has no guard for the traits' device
  /// type.
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
  /// Starts torch's side of the device (`lazyInitDevice`); cheap after the first call.
  void start() const;
  c10::Device torch_device(DeviceIndex index) const;
};

/// Looks for devices of a type the way the registry does: the traits' own probe first, then torch's
/// guard. Answers 0 with the reason when the LibTorch of this process cannot drive the type.
ANYACCEL_API Probe probe_torch_device(const Traits& traits) noexcept;

}  // namespace anyaccel::sdk
