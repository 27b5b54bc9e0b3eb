// Counts the operations at which faults can be injected, for `anyaccel sim campaign`.
#pragma once

#include <atomic>
#include <cstdint>

namespace anyaccel::backends::sim {

/// Thread-safe, except reset().
class OperationCounter {
 public:
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// Restarts counting at 0.
  void reset() noexcept {
    most_ = most();
    count_ = 0;
  }
  /// The largest count reached between two resets.
  std::uint64_t most() const noexcept {
    const auto count = count_.load(std::memory_order_relaxed);
    return count > most_ ? count : most_;
  }

 private:
  std::atomic<std::uint64_t> count_{0};
  std::uint64_t most_ = 0;
};

/// If SIM_COUNTS names a file (`%p` is replaced by the PID), writes {"allocations": N, "launches":
/// N} to it. Each count is the maximum over all devices. Called at program exit.
void write_counts() noexcept;

}  // namespace anyaccel::backends::sim
