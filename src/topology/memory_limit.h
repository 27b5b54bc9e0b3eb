// Host memory that this process can use: the minimum over the host, the given NUMA nodes and the
// process's control groups (v1 and v2, with all ancestors). `root` is the folder that contains
// /proc and /sys; tests pass a different one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "topology/topology.h"

namespace anyaccel::topology {

/// Amounts in bytes, and the files from which they were read.
struct MemoryAmount {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  std::int64_t total = unlimited;
  std::int64_t available =
      unlimited;  ///< bytes that are usable without swapping, including reclaimable caches
  /// File that contains the total, for example "/sys/fs/cgroup/job/memory.max"; "" if unlimited.
  std::string total_from = {};
  std::string available_from = {};

  /// Sets each amount to the minimum of itself and the corresponding amount of `other`.
  void limit_to(const MemoryAmount& other);
};

/// Returns MemTotal and MemAvailable from /proc/meminfo; unlimited if the file cannot be read.
MemoryAmount host_memory(const std::filesystem::path& root = "/");

/// Returns the total memory of the given NUMA nodes (OS indices), or unlimited if the system does
/// not report it.
MemoryAmount node_memory(const std::vector<int>& os_indices,
                         const std::filesystem::path& root = "/");

/// Returns the tightest limit of this process's control groups; unlimited if there is none. Page
/// cache that the kernel would drop first (inactive_file) counts as available. If there was no
/// limit before, a new limit is noticed within a second.
ANYACCEL_API MemoryAmount control_group_memory(const std::filesystem::path& root = "/");

/// Returns the minimum of all three amounts. `os_indices` are the nodes to count; an empty list
/// means all memory of the host.
ANYACCEL_API MemoryAmount usable_memory(const std::vector<int>& os_indices = {},
                                        const std::filesystem::path& root = "/");

/// Returns the operating system's numbers of the nodes that provide memory for a node's cores: the
/// node itself, and HBM or memory of unknown kind near it. `node` is an index into `machine.nodes`.
/// Device memory and CXL memory are not included.
ANYACCEL_API std::vector<int> memory_nodes(const Machine& machine, int node);

}  // namespace anyaccel::topology
