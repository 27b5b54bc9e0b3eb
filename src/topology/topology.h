// The machine as seen by placement code: NUMA nodes, cores, hardware threads and kinds of memory.
// It is read with hwloc, from the running system or from a saved XML file. A `Machine` is a plain
// value, so tests can check decisions for machines that are not available. Does not use torch. With
// ANYACCEL_MINIMAL, the same functions work without hwloc and return one node with the CPUs that
// the process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "topology/cpu_list.h"

namespace anyaccel::topology {

/// Kind of a NUMA node's memory.
enum class MemoryKind {
  dram,
  hbm,     ///< high-bandwidth memory next to the DRAM (Xeon Max in flat mode, MCDRAM of Xeon Phi)
  device,  ///< memory of a GPU or another device, exposed by the OS as a NUMA node
  cxl,     ///< memory attached through CXL
  other,   ///< CPU-less memory of unknown kind; never treated as HBM
};

/// Returns a stable lower-case name. Never null.
ANYACCEL_API const char* to_string(MemoryKind kind) noexcept;

struct Core {
  int package = 0;  ///< zero-based socket number
  int node = -1;    ///< index of the core's node in Machine::nodes; -1 if there is none
  CpuList cpus;     ///< hardware threads of the core, ascending; the first one represents the core
};

struct NumaNode {
  int os_index = 0;  ///< the operating system's number; numbers need not be contiguous
  MemoryKind kind = MemoryKind::dram;
  std::int64_t memory = 0;  ///< size in bytes; 0 if this process may not allocate there
  CpuList cpus;             ///< hardware threads assigned to the node; empty for memory-only nodes
  CpuList near_cpus;        ///< hardware threads close to the node; a superset of `cpus`
};

/// A machine, restricted to the resources that a process may use.
struct ANYACCEL_API Machine {
  std::vector<NumaNode> nodes;  ///< sorted by os_index
  std::vector<Core> cores;      ///< in hwloc's order, so that neighboring cores are adjacent
  std::string cpu_model;        ///< "" if unknown
  std::string cpu_vendor;       ///< "" if unknown

  /// Returns all hardware threads.
  CpuList cpus() const;
};

/// Reads this machine, restricted to the CPUs that this process may currently use (affinity and
/// cpuset). Throws `unavailable` with the reason if the machine's topology cannot be read.
ANYACCEL_API Machine read_machine();

/// Reads a machine from a file that `lstopo --of xml FILE` has written. Throws `io`, `not_found` or
/// `corrupt`, and `unsupported` in a build without hwloc.
ANYACCEL_API Machine read_machine(const std::filesystem::path& xml_file);

/// Returns the result of the first read_machine() in this process. If that throws, returns one node
/// with one core per allowed CPU. Thread-safe.
ANYACCEL_API const Machine& this_machine() noexcept;

/// Returns the CPUs that this thread may currently run on.
CpuList allowed_cpus();

/// Restricts a machine to the given CPUs. Drops cores that have none of these CPUs, and keeps all
/// nodes. CPUs that the machine does not have are ignored.
Machine restrict_to(Machine machine, const CpuList& cpus);

/// Returns indices into `machine.nodes` of the nodes with cores, which are the devices of the cpu
/// backend. Omits memory-only nodes (HBM in flat mode, device memory, CXL), and nodes of an
/// emulated NUMA layout whose cores belong to another node. Never empty if the machine has cores.
ANYACCEL_API std::vector<int> numa_nodes_with_cores(const Machine& machine);

/// Returns the cores of one node (an index into `machine.nodes`).
ANYACCEL_API std::vector<Core> cores_of_node(const Machine& machine, int node);

/// Returns the number of sockets with cores.
ANYACCEL_API int package_count(const Machine& machine);

/// Assigns each core to one of the nodes close to it: DRAM takes precedence over other kinds, then
/// nodes with fewer CPUs, then nodes with lower numbers. Fills Core::node and NumaNode::cpus from
/// NumaNode::near_cpus. Called by the readers.
void assign_cores(Machine& machine);

}  // namespace anyaccel::topology
