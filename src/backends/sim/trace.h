// A record of when kernels ran, for torch's profiler.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace anyaccel::backends::sim {

/// A kernel that ran. Times are nanoseconds since the epoch.
struct TracedKernel {
  const char* name = "";
  int device = 0;
  int stream = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  /// Correlation ID that the profiler gave the op that launched the kernel; 0 if there was none.
  std::uint64_t correlation = 0;
};

namespace trace {

/// True between start() and stop().
extern std::atomic<bool> active;

void start();
/// Returns the kernels that ran since start(). Kernels that are still queued are not included.
std::vector<TracedKernel> stop();
/// Thread-safe.
void add(const TracedKernel& kernel);

/// The profiler calls these on the thread that runs an op.
void push_correlation(std::uint64_t id);
void pop_correlation();
/// The profiler's correlation ID for the op that this thread runs; 0 outside of ops.
std::uint64_t correlation() noexcept;

}  // namespace trace

}  // namespace anyaccel::backends::sim
