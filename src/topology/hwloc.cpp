// Reads the machine with hwloc. Discovers only the data that a Machine contains, without devices,
// caches or hwloc plugins.

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "anyaccel/error.h"
#include "base/file.h"
#include "topology/arm_processor.h"
#include "topology/hwloc_topology.h"
#include "topology/topology.h"

namespace anyaccel::topology {

namespace {

CpuList to_list(hwloc_const_bitmap_t set) {
  CpuList cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
    if (hwloc_bitmap_weight(set) < 0) break;  // an infinite set has no last element
  }
  return cpus;
}

/// Returns the memory bandwidth that the firmware reports for a node's own CPUs, or 0 if it reports
/// none.
hwloc_uint64_t bandwidth(hwloc_topology_t topology, hwloc_obj_t node) {
  hwloc_location from{};
  from.type = HWLOC_LOCATION_TYPE_CPUSET;
  from.location.cpuset = node->cpuset;
  hwloc_uint64_t value = 0;
  if (hwloc_memattr_get_value(topology, HWLOC_MEMATTR_ID_BANDWIDTH, node, &from, 0, &value) != 0)
    return 0;
  return value;
}

MemoryKind kind_by_name(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("HBM") || has("MCDRAM")) return MemoryKind::hbm;
  if (has("CXL")) return MemoryKind::cxl;
  if (has("GPU")) return MemoryKind::device;
  if (name.empty() || name == "DRAM") return MemoryKind::dram;
  return MemoryKind::other;
}

/// Determines the kind from hwloc's name. An unnamed node that has the same CPUs as an earlier node
/// has no CPUs of its own: it is HBM if the firmware reports at least twice the bandwidth,
/// otherwise its kind is unknown.
MemoryKind kind_of(hwloc_topology_t topology, hwloc_obj_t node,
                   const std::vector<hwloc_obj_t>& earlier) {
  const std::string_view subtype = node->subtype == nullptr ? "" : node->subtype;
  if (!subtype.empty()) return kind_by_name(subtype);
  if (hwloc_obj_get_info_by_name(node, "PCIBusID") != nullptr) return MemoryKind::device;
  for (const hwloc_obj_t other : earlier) {
    if (hwloc_bitmap_isequal(other->cpuset, node->cpuset) == 0) continue;
    const auto theirs = bandwidth(topology, other);
    if (theirs > 0 && bandwidth(topology, node) >= 2 * theirs) return MemoryKind::hbm;
    return MemoryKind::other;
  }
  return MemoryKind::dram;
}

std::string info(hwloc_topology_t topology, const char* name) {
  for (const hwloc_obj_t object :
       {hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), hwloc_get_root_obj(topology)}) {
    const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
    if (value != nullptr) return value;
  }
  return {};
}

void read_nodes(hwloc_topology_t topology, Machine& machine) {
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));)
    objects.push_back(node);
  std::sort(objects.begin(), objects.end(),
            [](auto a, auto b) { return a->os_index < b->os_index; });
  const auto allowed = hwloc_topology_get_allowed_nodeset(topology);
  const auto allowed_cpus = to_list(hwloc_topology_get_allowed_cpuset(topology));
  std::vector<hwloc_obj_t> earlier;
  for (const hwloc_obj_t object : objects) {
    NumaNode node;
    node.os_index = static_cast<int>(object->os_index);
    node.kind = kind_of(topology, object, earlier);
    if (hwloc_bitmap_isset(allowed, object->os_index) != 0)
      node.memory = static_cast<std::int64_t>(object->attr->numanode.local_memory);
    node.near_cpus = intersect(to_list(object->cpuset), allowed_cpus);
    machine.nodes.push_back(std::move(node));
    earlier.push_back(object);
  }
}

void read_cores(hwloc_topology_t topology, Machine& machine) {
  std::map<hwloc_obj_t, std::size_t> seen;
  const auto allowed = hwloc_topology_get_allowed_cpuset(topology);
  for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu));) {
    if (hwloc_bitmap_isset(allowed, pu->os_index) == 0) continue;
    // If the kernel does not report cores, each hardware thread counts as one.
    hwloc_obj_t object = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    if (object == nullptr) object = pu;
    const auto [place, added] = seen.emplace(object, machine.cores.size());
    if (added) {
      const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, pu);
      Core core;
      core.package = package == nullptr ? 0 : static_cast<int>(package->logical_index);
      machine.cores.push_back(std::move(core));
    }
    machine.cores[place->second].cpus.push_back(static_cast<int>(pu->os_index));
  }
  for (auto& core : machine.cores) std::sort(core.cpus.begin(), core.cpus.end());
}

Machine to_machine(hwloc_topology_t topology) {
  Machine machine;
  machine.cpu_model = info(topology, "CPUModel");
  machine.cpu_vendor = info(topology, "CPUVendor");
  if (machine.cpu_model.empty()) {
    auto arm = arm_processor(info(topology, "CPUImplementer"), info(topology, "CPUPart"));
    machine.cpu_vendor = std::move(arm.vendor);
    machine.cpu_model = std::move(arm.model);
  }
  read_nodes(topology, machine);
  read_cores(topology, machine);
  assign_cores(machine);
  return machine;
}

}  // namespace

Machine read_machine() {
  const WithoutPlugins fast;
  const Topology topology;
  if (hwloc_topology_load(topology.get()) != 0)
    throw Error(ErrorCode::unavailable, "topology",
                {.what = "hwloc cannot read this machine's topology"});
  return restrict_to(to_machine(topology.get()), allowed_cpus());
}

Machine read_machine(const std::filesystem::path& xml_file) {
  // Read the file here, because hwloc does not distinguish a missing file from a malformed one.
  const std::string xml = read_input(xml_file);
  if (xml.size() >= std::numeric_limits<int>::max())
    throw Error(ErrorCode::corrupt, "topology",
                {.what = "the saved topology is too large: " + xml_file.string()});
  const WithoutPlugins fast;
  const Topology topology;
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml.c_str(), static_cast<int>(xml.size() + 1)) !=
          0 ||
      hwloc_topology_load(topology.get()) != 0)
    throw Error(ErrorCode::corrupt, "topology",
                {.what = "hwloc cannot read the saved topology: " + xml_file.string(),
                 .want = "a file made by `lstopo --of xml FILE`"});
  return to_machine(topology.get());
}

}  // namespace anyaccel::topology
