// How much host memory this process can really get: the least of the host, its NUMA nodes and its
// control groups (v1 and v2, with all ancestors). `root` is where /proc and /sys lie, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "topology/topology.h"

namespace anyaccel::topology {

/// Bytes, and where the numbers come from.
struct MemoryAmount {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  std::int64_t total = unlimited;
  std::int64_t available =
      unlimited;  ///< what can be taken without swapping; caches that give way counted
  std::string total_from = {};  ///< for example "/sys/fs/cgroup/job/memory.max"; "" when unlimited
  std::string available_from = {};

  /// Takes over what is smaller in `other`.
  void limit_to(const MemoryAmount& other);
};

/// MemTotal and MemAvailable of /proc/meminfo; unlimited where there is none.
MemoryAmount host_memory(const std::filesystem::path& root = "/");

/// The sum of some NUMA nodes (operating system's numbers); unlimited where the system does not
/// tell.
MemoryAmount node_memory(const std::vector<int>& os_indices,
                         const std::filesystem::path& root = "/");

/// The tightest limit of the control groups that this process is in; unlimited where there is none.
/// Page cache that the kernel would drop first (inactive_file) counts as available. A limit where
/// there was none is seen within a second.
ANYACCEL_API MemoryAmount control_group_memory(const std::filesystem::path& root = "/");

/// The least of all three. `os_indices`: the nodes to count; empty means all memory of the host.
ANYACCEL_API MemoryAmount usable_memory(const std::vector<int>& os_indices = {},
                                        const std::filesystem::path& root = "/");

/// Numbers of the nodes whose memory serves a node's cores: itself and HBM or unknown memory near
/// it. `node` is an index into `machine.nodes`. Device memory and CXL are left out.
ANYACCEL_API std::vector<int> memory_nodes(const Machine& machine, int node);

}  // namespace anyaccel::topology
