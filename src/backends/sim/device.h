// One simulated device: its streams, its faults, and what failed on it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/sim/faults.h"
#include "backends/sim/stream.h"

namespace anyaccel::backends::sim {

class DeviceMemory;

struct Device {
  /// Stream 0 is the default one; normal and urgent streams, kPooled of each, follow.
  static constexpr int kPooled = 32;

  Device(int device_index, double latency, const std::vector<Fault>& list, std::uint64_t seed);
  ~Device();

  /// Streams are handed out in turn, as CUDA's pools do: the 33rd is the first again.
  SimStream& next_stream(bool urgent) noexcept;
  /// Waits for all streams; throws what failed since the last wait.
  void synchronize();

  /// Keeps the first failure until someone waits. Thread-safe, as are the functions below.
  void fail(const char* op, const std::string& what);
  /// Throws the kept failure, once; for a lost device, always.
  void raise();
  void lose(const char* op);
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  void check_not_lost();
  /// For a device of static life: its locks, and those of its streams and memory, are free in a
  /// forked child.
  void keep_locks_free_in_forks();

  const int index;
  const double latency_us;
  FaultCounter faults;
  std::vector<std::unique_ptr<SimStream>> streams;
  std::atomic<int> urgent_streams{0};
  std::unique_ptr<DeviceMemory> memory;

 private:
  std::atomic<unsigned> next_normal_{0}, next_urgent_{0};
  std::atomic<bool> failed_{false}, lost_{false};
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace anyaccel::backends::sim
