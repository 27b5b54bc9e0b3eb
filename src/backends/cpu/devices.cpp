#include "backends/cpu/devices.h"

#include <algorithm>
#include <exception>

#include "base/env.h"
#include "base/log.h"
#include "topology/memory_limit.h"

namespace anyaccel::backends::cpu {

namespace {

constexpr long kMaxDevices = 1 << 16;

/// Adds the cores and memory of a NUMA node to a device.
void add_node(CpuDevice& device, const topology::Machine& machine, int node) {
  if (device.numa_node < 0)
    device.numa_node = machine.nodes[static_cast<std::size_t>(node)].os_index;
  device.cores += static_cast<int>(topology::cores_of_node(machine, node).size());
  const auto memory = topology::memory_nodes(machine, node);
  device.memory_nodes.insert(device.memory_nodes.end(), memory.begin(), memory.end());
}

}  // namespace

std::vector<CpuDevice> cpu_devices(const topology::Machine& machine,
                                   std::optional<int> local_size) {
  const auto nodes = topology::numa_nodes_with_cores(machine);
  const std::size_t count =
      local_size ? static_cast<std::size_t>(*local_size) : std::max<std::size_t>(nodes.size(), 1);
  std::vector<CpuDevice> devices(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i * nodes.size() / count;
    const std::size_t last = std::max(first + 1, (i + 1) * nodes.size() / count);
    for (std::size_t n = first; n < std::min(last, nodes.size()); ++n)
      add_node(devices[i], machine, nodes[n]);
    if (nodes.empty()) devices[i].cores = static_cast<int>(machine.cores.size());
    // For a device that includes all nodes, only the host's memory limit applies, so the nodes need
    // not be queried.
    if (machine.nodes.size() == devices[i].memory_nodes.size()) devices[i].memory_nodes.clear();
  }
  return devices;
}

std::optional<int> local_size_from_environment() noexcept try {
  const auto size = env_int("LOCAL_SIZE", 0, kMaxDevices);
  if (!size || *size == 0) return std::nullopt;
  return static_cast<int>(*size);
} catch (const std::exception& error) {
  log_once(LogLevel::warning, "LOCAL_SIZE",
           std::string(error.what()) + "; NUMA nodes are counted instead");
  return std::nullopt;
}

DeviceIndex local_rank_from_environment(DeviceIndex count) noexcept try {
  // A launcher may start more ranks than there are devices. The additional ranks share device 0.
  const auto rank = env_int("LOCAL_RANK", 0, kMaxDevices);
  return rank && *rank < count ? static_cast<DeviceIndex>(*rank) : 0;
} catch (const std::exception& error) {
  log_once(LogLevel::warning, "LOCAL_RANK",
           std::string(error.what()) + "; device 0 is used instead");
  return 0;
}

sdk::Probe probe() noexcept try {
  if (const auto size = local_size_from_environment())
    return {*size, "LOCAL_SIZE is " + std::to_string(*size)};
  const auto& machine = topology::this_machine();
  const int count = static_cast<int>(cpu_devices(machine, std::nullopt).size());
  return {count, std::to_string(count) + (count == 1 ? " NUMA node" : " NUMA nodes") +
                     " with cores, " + std::to_string(machine.cores.size()) + " cores in total"};
} catch (const std::exception& error) {
  return {1, std::string("the topology cannot be read, so there is one device: ") + error.what()};
}

}  // namespace anyaccel::backends::cpu
