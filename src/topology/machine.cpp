// Functions that work with a Machine. The functions that read one are in hwloc.cpp and
// no_hwloc.cpp.
#include <sched.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>

#include "base/log.h"
#include "topology/topology.h"

namespace anyaccel::topology {

namespace {

/// Fallback if the machine's topology cannot be read: one node, with one core per allowed CPU.
Machine flat_machine() {
  Machine machine;
  machine.nodes.emplace_back();
  for (const int cpu : allowed_cpus()) {
    machine.cores.push_back({.package = 0, .node = 0, .cpus = {cpu}});
    machine.nodes[0].near_cpus.push_back(cpu);
  }
  machine.nodes[0].cpus = machine.nodes[0].near_cpus;
  return machine;
}

}  // namespace

const char* to_string(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::dram: return "dram";
    case MemoryKind::hbm: return "hbm";
    case MemoryKind::device: return "device";
    case MemoryKind::cxl: return "cxl";
    case MemoryKind::other: return "other";
  }
  return "other";
}

CpuList Machine::cpus() const {
  CpuList all;
  for (const auto& core : cores) all.insert(all.end(), core.cpus.begin(), core.cpus.end());
  std::sort(all.begin(), all.end());
  return all;
}

CpuList allowed_cpus() {
  // The kernel rejects a CPU set that is smaller than its own, so double the size until the call
  // succeeds.
  for (int limit = 1024; limit <= 1 << 20; limit *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(limit));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(limit));
    CpuList cpus;
    if (::sched_getaffinity(0, bytes, set) == 0)
      for (int cpu = 0; cpu < limit; ++cpu)
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

Machine restrict_to(Machine machine, const CpuList& cpus) {
  for (auto& core : machine.cores) core.cpus = intersect(core.cpus, cpus);
  std::erase_if(machine.cores, [](const Core& core) { return core.cpus.empty(); });
  for (auto& node : machine.nodes) {
    node.cpus = intersect(node.cpus, cpus);
    node.near_cpus = intersect(node.near_cpus, cpus);
  }
  return machine;
}

void assign_cores(Machine& machine) {
  std::vector<int> order(machine.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int i) {
    const auto& node = machine.nodes[static_cast<std::size_t>(i)];
    return std::tuple(node.kind != MemoryKind::dram, node.near_cpus.size(), node.os_index);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  for (auto& core : machine.cores) core.node = -1;
  for (auto& node : machine.nodes) node.cpus.clear();
  for (const int i : order) {
    auto& node = machine.nodes[static_cast<std::size_t>(i)];
    for (auto& core : machine.cores) {
      // All threads of a core are in the same node, so checking the first one is enough.
      const bool near =
          std::binary_search(node.near_cpus.begin(), node.near_cpus.end(), core.cpus.front());
      if (core.node >= 0 || !near) continue;
      core.node = i;
      node.cpus.insert(node.cpus.end(), core.cpus.begin(), core.cpus.end());
    }
    std::sort(node.cpus.begin(), node.cpus.end());
  }
}

std::vector<int> numa_nodes_with_cores(const Machine& machine) {
  std::set<int> found;
  for (const auto& core : machine.cores)
    if (core.node >= 0) found.insert(core.node);
  // If no core belongs to a node, treat all cores together as one device.
  if (found.empty() && !machine.cores.empty() && !machine.nodes.empty()) found.insert(0);
  return {found.begin(), found.end()};
}

std::vector<Core> cores_of_node(const Machine& machine, int node) {
  std::vector<Core> cores;
  for (const auto& core : machine.cores)
    if (core.node == node) cores.push_back(core);
  return cores;
}

int package_count(const Machine& machine) {
  std::set<int> found;
  for (const auto& core : machine.cores) found.insert(core.package);
  return static_cast<int>(found.size());
}

const Machine& this_machine() noexcept {
  static const Machine machine = [] {
    try {
      return read_machine();
    } catch (const std::exception& error) {
      log(LogLevel::warning, error.what());
      return flat_machine();
    }
  }();
  return machine;
}

}  // namespace anyaccel::topology
