// The CPU as an accelerator. Work is done when the call returns, so streams are identities and
// events are times.
#pragma once

#include <vector>

#include "anyaccel/sdk/backend.h"
#include "backends/cpu/devices.h"
#include "backends/cpu/process_memory.h"

namespace anyaccel::backends::cpu {

/// See README.md for what differs from other backends. Not on the generic backend: torch's CPU has
/// no events, no streams to choose and no device indices above 0.
class CpuBackend : public sdk::Backend {
 public:
  /// Reads LOCAL_SIZE and the machine once; the devices stay the same from then on.
  CpuBackend();
  /// The same on a machine that need not be this one.
  explicit CpuBackend(std::vector<CpuDevice> devices);

  DeviceIndex device_count() const noexcept override;
  /// Until a thread chooses, LOCAL_RANK where that is one of the devices, else 0. As DeepSpeed's
  /// current_device.
  DeviceIndex current_device() const override;
  void set_device(DeviceIndex index) override;
  void synchronize(DeviceIndex index) override;
  DeviceProperties properties(DeviceIndex index) const override;
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override;

  /// The one host generator, for every index.
  at::Generator default_generator(DeviceIndex index) const override;

  Stream current_stream(DeviceIndex index) const override;
  void set_stream(const Stream& stream) override;
  Stream default_stream(DeviceIndex index) const override;
  Stream new_stream(DeviceIndex index, int priority) override;
  std::shared_ptr<sdk::EventImpl> new_event(DeviceIndex index, bool enable_timing) override;

  /// Counts the process's host tensors, with the same numbers for every index, or, with
  /// ANYACCEL_CPU_MEMORY=rss, its resident set size.
  MemoryStats memory_stats(DeviceIndex index) const override;
  MemoryInfo memory_info(DeviceIndex index) const override;
  void reset_peak_memory_stats(DeviceIndex index) override;

  /// Captures and replays for real, see graph/graph.h.
  std::shared_ptr<sdk::GraphImpl> new_graph() override;
  bool is_current_stream_capturing() const override;

 private:
  std::vector<CpuDevice> devices_;
  DeviceIndex first_device_;
  const bool counts_process_ = counts_process_memory();
  ProcessMemory process_memory_;
};

}  // namespace anyaccel::backends::cpu
