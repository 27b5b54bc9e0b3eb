// Uses the process's resident memory as the CPU's memory statistics (ANYACCEL_CPU_MEMORY=rss).
#pragma once

#include <atomic>
#include <cstdint>

#include "anyaccel/memory.h"
#include "base/process.h"

namespace anyaccel::backends::cpu {

/// True for ANYACCEL_CPU_MEMORY=rss, false for `tensors` or unset. Throws `invalid_argument` for
/// any other value.
bool counts_process_memory();

/// The resident set size and its peak. Thread-safe.
class ProcessMemory {
 public:
  using ResetPeak = bool (*)() noexcept;
  explicit ProcessMemory(ResetPeak reset = &reset_peak_resident_bytes) noexcept
      : reset_peak_(reset) {}

  /// Throws `unavailable` if the system does not report it.
  MemoryStat read() const;
  /// Resets the peak to the current size. If the system cannot reset it, the peak is the largest
  /// size that read() has seen since.
  void reset_peak();

 private:
  const ResetPeak reset_peak_;
  mutable std::atomic<std::int64_t> seen_{-1};  ///< -1: use the system's peak
};

}  // namespace anyaccel::backends::cpu
