// Host memory that this process can use: the minimum of the host, its NUMA nodes and its control
// groups (v1 and v2, with all ancestors). `root` is the folder that contains /proc and /sys; tests
// change it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "topology/topology.h"

namespace anyaccel::topology {

/// Amounts in bytes, with the files that they were read from.
struct MemoryAmount {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  std::int64_t total = unlimited;
  std::int64_t available = unlimited;  ///< usable without swapping, including reclaimable caches
  std::string total_from = {};  ///< for example "/sys/fs/cgroup/job/memory.max"; "" if unlimited
  std::string available_from = {};

  /// Reduces each amount to that of `other`, if that is smaller.
  void limit_to(const MemoryAmount& other);
};

/// MemTotal and MemAvailable of /proc/meminfo; unlimited if the file cannot be read.
MemoryAmount host_memory(const std::filesystem::path& root = "/");

/// The sum over some NUMA nodes (the operating system's numbers); unlimited if the system does not
/// report it.
MemoryAmount node_memory(const std::vector<int>& os_indices,
                         const std::filesystem::path& root = "/");

/// The tightest limit among this process's control groups; unlimited if there is none. Page cache
/// that the kernel would drop first (inactive_file) counts as available. If there was no limit, a
/// new one is noticed within a second.
ANYACCEL_API MemoryAmount control_group_memory(const std::filesystem::path& root = "/");

/// The minimum of all three. `os_indices` are the nodes to count; empty means all memory of the
/// host.
ANYACCEL_API MemoryAmount usable_memory(const std::vector<int>& os_indices = {},
                                        const std::filesystem::path& root = "/");

/// The operating system's numbers of the nodes whose memory serves a node's cores: the node itself,
/// and HBM or unknown memory near it. `node` is an index into `machine.nodes`. Device memory and
/// CXL are left out.
ANYACCEL_API std::vector<int> memory_nodes(const Machine& machine, int node);

}  // namespace anyaccel::topology
