// The devices of the CPU: its NUMA nodes, or as many equal parts as LOCAL_SIZE requests.
#pragma once

#include <optional>
#include <vector>

#include "anyaccel/device.h"
#include "anyaccel/sdk/traits.h"
#include "topology/topology.h"

namespace anyaccel::backends::cpu {

/// One device of the cpu backend.
struct CpuDevice {
  int numa_node = -1;  ///< the operating system's number of its first node; -1 if unknown
  int cores = 0;       ///< cores that this process may use there
  std::vector<int> memory_nodes;  ///< nodes whose memory it includes; empty: all memory of the host
};

/// Devices of a machine. Without `local_size`, one per NUMA node with cores, and at least one. With
/// `local_size`, that many devices: each has its share of the nodes or, if there are fewer nodes,
/// shares a node with others.
std::vector<CpuDevice> cpu_devices(const topology::Machine& machine, std::optional<int> local_size);

/// LOCAL_SIZE, as set by launchers; nullopt if it is unset or 0. An invalid value is logged once
/// and ignored.
std::optional<int> local_size_from_environment() noexcept;

/// LOCAL_RANK, as set by launchers, if it is one of `count` devices; otherwise 0.
DeviceIndex local_rank_from_environment(DeviceIndex count) noexcept;

/// The number of devices and its source, for the registry. Does not initialize anything.
sdk::Probe probe() noexcept;

}  // namespace anyaccel::backends::cpu
