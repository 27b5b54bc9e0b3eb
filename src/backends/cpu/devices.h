// CPU devices: one per NUMA node, or as many equal parts of the machine as LOCAL_SIZE requests.
#pragma once

#include <optional>
#include <vector>

#include "anyaccel/device.h"
#include "anyaccel/sdk/traits.h"
#include "topology/topology.h"

namespace anyaccel::backends::cpu {

/// One device of the cpu backend.
struct CpuDevice {
  int numa_node = -1;  ///< the operating system's index of the first NUMA node; -1 if unknown
  int cores = 0;       ///< cores of the device that this process may use
  std::vector<int> memory_nodes;  ///< memory nodes of the device; empty: all host memory
};

/// Returns a machine's CPU devices. Without `local_size`, there is one per NUMA node with cores,
/// and at least one. With `local_size`, there are that many devices. The nodes are divided among
/// them; if there are fewer nodes than devices, several devices share a node.
std::vector<CpuDevice> cpu_devices(const topology::Machine& machine, std::optional<int> local_size);

/// LOCAL_SIZE, as set by launchers; nullopt if it is unset or 0. An invalid value is logged once
/// and ignored.
std::optional<int> local_size_from_environment() noexcept;

/// LOCAL_RANK, as set by launchers, if it is one of `count` devices; otherwise 0.
DeviceIndex local_rank_from_environment(DeviceIndex count) noexcept;

/// The number of devices and its source, for the registry. Does not initialize anything.
sdk::Probe probe() noexcept;

}  // namespace anyaccel::backends::cpu
