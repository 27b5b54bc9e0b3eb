// Memory statistics for devices and pinned host memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace anyaccel {

/// Free and total memory of a device in bytes. Memory that other processes use does not count as
/// free.
struct MemoryInfo {
  std::int64_t free = 0;
  std::int64_t total = 0;
};

/// A counter with its peak since the last reset.
struct MemoryStat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
};

/// Allocator counters for one device.
struct MemoryStats {
  MemoryStat allocated_bytes;  ///< bytes of live tensors
  /// bytes reserved from the driver; equal to `allocated_bytes` if there is no cache
  MemoryStat reserved_bytes;
  MemoryStat allocation_count;  ///< number of live allocations
  /// number of allocations that succeeded only after the cache was freed
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;  ///< number of failed allocations
};

/// Result of `Accelerator::memory_stats()`: torch's keys ("allocated_bytes.all.current", ...) and,
/// on every accelerator, "host.rss.current" and "host.rss.peak", in bytes.
using MemoryStatsMap = std::map<std::string, std::int64_t>;

/// Counters for pinned host memory.
struct HostMemoryStats {
  MemoryStat allocated_bytes;       ///< bytes of pinned memory in use
  MemoryStat reserved_bytes;        ///< reserved pinned bytes, including cached blocks
  std::int64_t num_host_alloc = 0;  ///< number of memory requests to the system
  std::int64_t num_host_free = 0;   ///< number of times that memory was returned to the system
};

}  // namespace anyaccel
