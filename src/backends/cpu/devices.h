// The devices of the CPU: its NUMA nodes, or the equal parts that LOCAL_SIZE asks for.
#pragma once

#include <optional>
#include <vector>

#include "anyaccel/device.h"
#include "anyaccel/sdk/traits.h"
#include "topology/topology.h"

namespace anyaccel::backends::cpu {

/// One device of the cpu backend.
struct CpuDevice {
  int numa_node = -1;  ///< operating system's number of its (first) node; -1 when unknown
  int cores = 0;       ///< cores that this process may use there
  std::vector<int> memory_nodes;  ///< nodes whose memory it counts; empty: all of the host's
};

/// Devices of a machine. Without `local_size` one for each NUMA node with cores, at least one. With
/// it that many: each stands for its share of the nodes, or shares a node with others when there
/// are fewer nodes.
std::vector<CpuDevice> cpu_devices(const topology::Machine& machine, std::optional<int> local_size);

/// LOCAL_SIZE as launchers set it; nothing when unset or 0. A value that is no count is reported
/// once in the log and otherwise ignored.
std::optional<int> local_size_from_environment() noexcept;

/// LOCAL_RANK as launchers set it, where it is one of `count` devices; else 0.
DeviceIndex local_rank_from_environment(DeviceIndex count) noexcept;

/// For the registry: the number of devices and where it comes from. Starts nothing.
sdk::Probe probe() noexcept;

}  // namespace anyaccel::backends::cpu
