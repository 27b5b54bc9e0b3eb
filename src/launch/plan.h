// Plans each rank's cores, memory and number of threads on a host. The plan is a pure function of
// the machine and the options, so it can also be computed for other hosts and for saved topologies.
// docs/explanation/rank-plan.md describes the rules for users.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "topology/topology.h"

namespace anyaccel::launch {

/// How strictly a rank's memory is bound to its nodes.
enum class MemoryPolicy {
  none,  ///< the system's default: the rank's memory nodes are unknown, or nothing is bound
  bind,  ///< use only these nodes
  /// Prefer these nodes, but fall back to others. Used for small high-bandwidth memory next to the
  /// DRAM (flat mode).
  preferred,
};

/// Returns a stable lower-case name. Never null.
ANYACCEL_API const char* to_string(MemoryPolicy policy) noexcept;

/// Maximum number of ranks per core without `--oversubscribe`.
constexpr int kRanksPerCore = 4;

/// Input for plan_host(), in addition to the machine.
struct PlanOptions {
  /// Number of ranks on this host; 0 means default_ranks().
  int ranks = 0;
  /// Bind ranks to cores (`--bind_cores_to_rank`). If false, the plan only computes each rank's
  /// thread count and checks the number of ranks.
  bool bind = true;
  /// Ranks compute on these cores instead of on devices, so the number of ranks per core is limited
  /// even without binding.
  bool compute_on_cores = true;
  /// CPUs to use (`--bind_core_list`). All of them are used, including both hardware threads of a
  /// core if both are listed. Default: the first allowed hardware thread of each core.
  std::optional<topology::CpuList> core_list = {};
  /// Allow any number of ranks per core (`--oversubscribe`). If false, at most kRanksPerCore are
  /// allowed, and more than one rank per core causes a warning.
  bool oversubscribe = false;
  /// Number of cores to keep free of ranks (`--reserve_cores`), for I/O and offload workers. They
  /// are taken from the ranks with the most cores.
  int reserve_cores = 0;
  /// NUMA node (the operating system's number) closest to each local rank's device; -1 if unknown.
  /// May be shorter than `ranks`.
  std::vector<int> device_nodes = {};
};

/// The plan for one rank.
struct RankPlan {
  int local_rank = 0;
  topology::CpuList cores;  ///< CPUs to bind to; empty if the rank is not bound
  std::vector<int>
      memory_nodes;  ///< operating-system numbers, ascending; empty with MemoryPolicy::none
  MemoryPolicy policy = MemoryPolicy::none;
  int threads = 0;  ///< value of OMP_NUM_THREADS; at least 1
  /// The CPUs in HostPlan::reserved that were taken from this rank. If ranks share cores, every
  /// rank lists all reserved CPUs.
  topology::CpuList reserved = {};
};

/// The plan for all ranks on one host.
struct HostPlan {
  std::vector<RankPlan> ranks;
  topology::CpuList reserved;  ///< CPUs of the reserved cores
  /// Explanations, one sentence each, for example of idle hardware threads or uneven numbers of
  /// cores.
  std::vector<std::string> notes;
  std::vector<std::string> warnings =
      {};  ///< slowdowns that the user did not request, one sentence each
};

/// Returns the default number of ranks on a host whose ranks compute on cores: one per NUMA node
/// with usable cores.
int default_ranks(const topology::Machine& machine, const PlanOptions& options = {});

/// Assigns cores and memory to the ranks on a host. Throws `invalid_argument`
/// - if there are more than kRanksPerCore ranks per core; the error suggests `--oversubscribe`
/// - if no core remains after reserving cores
/// - if `core_list` contains CPUs that do not exist or that this process may not use
ANYACCEL_API HostPlan plan_host(const topology::Machine& machine, const PlanOptions& options);

}  // namespace anyaccel::launch
