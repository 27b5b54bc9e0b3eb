// Memory: true numbers for device and host.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace anyaccel {

/// What a device has, in bytes, other processes counted.
struct MemoryInfo {
  std::int64_t free = 0;
  std::int64_t total = 0;
};

/// A number that rises and falls, with its highest value since the last reset.
struct MemoryStat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
};

/// What the allocator of one device has handed out. Plain data, cheap to fill.
struct MemoryStats {
  MemoryStat allocated_bytes;  ///< bytes of live tensors
  MemoryStat reserved_bytes;   ///< bytes that the allocator holds from the driver; where nothing is
                               ///< cached, the same as allocated
  MemoryStat allocation_count;         ///< live allocations
  std::int64_t num_alloc_retries = 0;  ///< allocations that needed the cache to be released first
  std::int64_t num_ooms = 0;           ///< allocations that failed
};

/// What `Accelerator::memory_stats()` returns: torch's keys ("allocated_bytes.all.current", ...),
/// and for every accelerator "host.rss.current" and "host.rss.peak".
using MemoryStatsMap = std::map<std::string, std::int64_t>;

/// What is known of pinned host memory, in bytes.
struct HostMemoryStats {
  MemoryStat allocated_bytes;       ///< pinned bytes in use
  MemoryStat reserved_bytes;        ///< pinned bytes held, cached ones too
  std::int64_t num_host_alloc = 0;  ///< calls that took memory from the system
  std::int64_t num_host_free = 0;   ///< calls that gave it back
};

}  // namespace anyaccel
