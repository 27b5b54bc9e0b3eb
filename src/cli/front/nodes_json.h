// Converts NUMA nodes to JSON for `report` and `topology`. The code is in a header because these
// commands are in different libraries.
#pragma once

#include <nlohmann/json.hpp>

#include "topology/topology.h"

namespace anyaccel::cli {

inline nlohmann::ordered_json nodes_json(const topology::Machine& machine) {
  auto nodes = nlohmann::ordered_json::array();
  for (const auto& node : machine.nodes)
    nodes.push_back({{"os_index", node.os_index},
                     {"kind", topology::to_string(node.kind)},
                     {"memory", node.memory},
                     {"cpus", topology::format_cpu_list(node.cpus)}});
  return nodes;
}

}  // namespace anyaccel::cli
