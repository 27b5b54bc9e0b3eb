// The CPU as an accelerator. Each call returns after its work is complete, so a stream is only an
// id and an event only a timestamp.
#pragma once

#include <vector>

#include "anyaccel/sdk/backend.h"
#include "backends/cpu/devices.h"
#include "backends/cpu/process_memory.h"

namespace anyaccel::backends::cpu {

/// README.md describes the differences from other backends. Does not derive from the generic
/// backend, because torch's CPU device has no events, no selectable streams and no device index
/// above 0.
class CpuBackend : public sdk::Backend {
 public:
  /// Reads LOCAL_SIZE and the machine's topology once; the devices do not change afterwards.
  CpuBackend();
  /// Uses the given devices instead of this machine's.
  explicit CpuBackend(std::vector<CpuDevice> devices);

  DeviceIndex device_count() const noexcept override;
  /// Until a thread calls set_device(), its device is LOCAL_RANK if that is one of the devices,
  /// otherwise 0, as in DeepSpeed's current_device.
  DeviceIndex current_device() const override;
  void set_device(DeviceIndex index) override;
  void synchronize(DeviceIndex index) override;
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;

  /// Returns torch's single host generator for every index.
  at::Generator default_generator(DeviceIndex index) const override;

  Stream current_stream(DeviceIndex index) const override;
  void set_stream(const Stream& stream) override;
  Stream default_stream(DeviceIndex index) const override;
  Stream new_stream(DeviceIndex index, int priority) override;
  std::shared_ptr<sdk::EventImpl> new_event(DeviceIndex index, bool enable_timing) override;

  /// Statistics of the process's host tensors or, with ANYACCEL_CPU_MEMORY=rss, of its resident set
  /// size. They are the same for every index.
  MemoryStats memory_stats(DeviceIndex index) const override;
  MemoryInfo memory_info(DeviceIndex index) const override;
  void reset_peak_memory_stats(DeviceIndex index) override;

  /// A graph that supports capture and replay, see graph/graph.h.
  std::shared_ptr<sdk::GraphImpl> new_graph() override;
  bool is_current_stream_capturing() const override;

 private:
  std::vector<CpuDevice> devices_;
  DeviceIndex first_device_;
  const bool counts_process_ = counts_process_memory();
  ProcessMemory process_memory_;
};

}  // namespace anyaccel::backends::cpu
