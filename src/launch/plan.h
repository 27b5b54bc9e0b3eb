// Which cores, which memory and how many threads each rank of a host gets. A pure function of the machine and the
// options: the same for this machine, for another host's and for a saved one. docs/launch.md has the rules as users read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace anyaccel::launch {

/// How strictly a rank's memory stays on its nodes.
enum class MemoryPolicy {
  none,  ///< the operating system's own: the nodes that have memory for the rank are not known, or nothing is bound
  bind,  ///< only there
  preferred,  ///< there while there is room: high-bandwidth memory beside the DRAM (flat mode), which is small
};

/// Stable lower-case name. Never null.
const char* to_string(MemoryPolicy policy) noexcept;

/// Ranks per core that start without `--oversubscribe`.
constexpr int kRanksPerCore = 4;

/// What is asked of a plan.
struct PlanOptions {
  /// Ranks on this host; 0: as many as default_ranks() says.
  int ranks = 0;
  /// Bind ranks to cores (`--bind_cores_to_rank`). Without, a plan only counts: threads of each rank, and whether there are too many ranks.
  bool bind = true;
  /// The ranks compute on these cores themselves, rather than on devices: more ranks than cores are limited, bound or not.
  bool compute_on_cores = true;
  /// CPUs to use (`--bind_core_list`), every one that is named: both hardware threads of a core where both are. Without, the first
  /// allowed hardware thread of each core.
  std::optional<topology::CpuList> core_list = {};
  /// Any number of ranks may share cores (`--oversubscribe`). Without it at most kRanksPerCore ranks per core start, with a warning.
  bool oversubscribe = false;
  /// Cores of this host that no rank computes on (`--reserve_cores`), taken from those ranks that have most: for input, output and offload workers.
  int reserve_cores = 0;
  /// For each local rank the NUMA node (operating system's number) that its device is next to; -1 where it is not known. May be
  /// shorter than `ranks`.
  std::vector<int> device_nodes = {};
};

/// One rank's share.
struct RankPlan {
  int local_rank = 0;
  topology::CpuList cores;        ///< CPUs to bind to; empty when ranks are not bound
  std::vector<int> memory_nodes;  ///< operating system's numbers, ascending; empty with MemoryPolicy::none
  MemoryPolicy policy = MemoryPolicy::none;
  int threads = 0;  ///< for OMP_NUM_THREADS; at least 1
  topology::CpuList reserved =
      {};  ///< its part of HostPlan::reserved, on its NUMA nodes; when ranks share cores, all of it
};

/// All ranks of one host.
struct HostPlan {
  std::vector<RankPlan> ranks;
  topology::CpuList reserved;  ///< CPUs of the reserved cores
  std::vector<std::string>
      notes;  ///< what a user may wonder about, a sentence each: idle hardware threads, uneven shares, ...
  std::vector<std::string> warnings = {};  ///< what slows the job down and was not asked for, a sentence each
};

/// Ranks on a host whose ranks compute on cores when nobody says how many: one for each NUMA node that has cores among those to use.
int default_ranks(const topology::Machine& machine, const PlanOptions& options = {});

/// Plans a host. Throws `invalid_argument` when there are more than kRanksPerCore ranks per core (naming `--oversubscribe`), when nothing is left beside
/// the reserved cores, or when `core_list` has CPUs that the machine does not have or this process may not use.
HostPlan plan_host(const topology::Machine& machine, const PlanOptions& options);

}  // namespace anyaccel::launch
