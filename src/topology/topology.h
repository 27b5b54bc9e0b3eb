// The machine as programs that place work see it: NUMA nodes, cores, hardware threads and kinds of
// memory. Read from hwloc, live or from a saved XML file; a `Machine` is a plain value, so that
// everything decided from it can be tested on machines that are not here. Needs no torch. With
// ANYACCEL_MINIMAL the same functions answer without hwloc: one node with the CPUs that the process
// may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "topology/cpu_list.h"

namespace anyaccel::topology {

/// What a NUMA node is made of.
enum class MemoryKind {
  dram,
  hbm,     ///< high-bandwidth memory beside the DRAM (Xeon Max in flat mode, Xeon Phi's MCDRAM)
  device,  ///< memory of a GPU or another device that the operating system shows as a node
  cxl,     ///< memory behind a CXL link
  other,   ///< CPU-less memory of unknown make: never taken for HBM
};

/// Stable lower-case name. Never null.
ANYACCEL_API const char* to_string(MemoryKind kind) noexcept;

/// One core.
struct Core {
  int package = 0;  ///< socket, counted from 0
  int node =
      -1;  ///< index into Machine::nodes of the node that it belongs to; -1 when there is none
  CpuList cpus;  ///< its hardware threads, ascending; the first one stands for the core
};

/// One NUMA node.
struct NumaNode {
  int os_index = 0;  ///< the operating system's number; need not be contiguous
  MemoryKind kind = MemoryKind::dram;
  std::int64_t memory = 0;  ///< bytes; 0 when this process may not allocate there
  CpuList cpus;             ///< hardware threads of its own; none for memory-only nodes
  CpuList near_cpus;  ///< the threads that it is close to; for nodes with CPUs the same or more
};

/// One machine, cut down to what a process may use.
struct ANYACCEL_API Machine {
  std::vector<NumaNode> nodes;  ///< by os_index
  std::vector<Core> cores;      ///< in hwloc's order: neighbours in the machine are neighbours here
  std::string cpu_model;        ///< "" when unknown
  std::string cpu_vendor;       ///< "" when unknown

  /// All hardware threads.
  CpuList cpus() const;
};

/// This machine, cut down to the CPUs that this process may use now (affinity and cpuset). Throws
/// `unavailable` with the reason when the machine cannot be read.
ANYACCEL_API Machine read_machine();

/// A machine saved with `lstopo --of xml FILE`. Throws `io`, `not_found` or `corrupt`;
/// `unsupported` in a build without hwloc.
ANYACCEL_API Machine read_machine(const std::filesystem::path& xml_file);

/// What read_machine() gave at the first call in this process; where it throws, one node with one
/// core for each allowed CPU. Thread-safe.
ANYACCEL_API const Machine& this_machine() noexcept;

/// CPUs that this process may run on now.
CpuList allowed_cpus();

/// The machine with only those CPUs; cores left without any are dropped, nodes stay. CPUs that the
/// machine does not have are ignored.
Machine restrict_to(Machine machine, const CpuList& cpus);

/// Indices into `machine.nodes` of the nodes that have cores: the devices of the cpu backend.
/// Memory-only nodes (HBM in flat mode, device memory, CXL) are left out, and nodes of a faked NUMA
/// layout that share the cores of another one. Never empty while the machine has cores.
ANYACCEL_API std::vector<int> numa_nodes_with_cores(const Machine& machine);

/// Cores of one node (an index into `machine.nodes`).
ANYACCEL_API std::vector<Core> cores_of_node(const Machine& machine, int node);

/// Sockets that have cores.
ANYACCEL_API int package_count(const Machine& machine);

/// Gives each core to one node: DRAM before other kinds, nodes with fewer CPUs first, then by
/// number; fills Core::node and NumaNode::cpus from NumaNode::near_cpus. Called by the readers.
void assign_cores(Machine& machine);

}  // namespace anyaccel::topology
