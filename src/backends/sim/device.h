// One simulated device: its streams, its injected faults and its errors.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/sim/counts.h"
#include "backends/sim/faults.h"
#include "backends/sim/stream.h"

namespace anyaccel::backends::sim {

class DeviceMemory;

struct Device {
  /// Stream 0 is the default stream. It is followed by kPooled normal and kPooled high-priority
  /// streams.
  static constexpr int kPooled = 32;

  Device(int device_index, double latency);
  ~Device();

  /// Returns the streams round-robin, like CUDA's pools: the 33rd call returns the first stream
  /// again.
  SimStream& next_stream(bool urgent) noexcept;
  /// Waits for all streams, then throws the first error since the last wait.
  void synchronize();

  /// Stores an error until the program next waits. Later errors are dropped. Thread-safe, like the
  /// functions below.
  void fail(const char* op, const std::string& what);
  /// Throws the stored error once. If the device is lost, throws on every call.
  void raise();
  void lose(const char* op);
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  void check_not_lost();
  /// Removes the stored error, makes a lost device usable again, and replaces the faults. The
  /// streams must be idle, and no other thread may use the device in the meantime.
  void reset(double latency, const std::vector<Fault>& list, std::uint64_t seed);
  /// Makes fork() leave the locks of the device, its streams and its memory unlocked in the child.
  /// Only for a device that is never destroyed.
  void keep_locks_free_in_forks();

  const int index;   ///< index among the devices that are visible to the process
  int physical = 0;  ///< index among all simulated devices
  double latency_us;
  FaultCounter faults{{}, 0, 0};
  std::vector<std::unique_ptr<SimStream>> streams;
  std::atomic<int> urgent_streams{0};
  std::unique_ptr<DeviceMemory> memory;
  /// The operations that SIM_FAULTS counts. They are counted even if it is not set.
  OperationCounter allocations, launches;

 private:
  std::atomic<unsigned> next_normal_{0}, next_urgent_{0};
  std::atomic<bool> failed_{false}, lost_{false};
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace anyaccel::backends::sim
