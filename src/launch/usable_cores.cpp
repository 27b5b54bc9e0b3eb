#include <algorithm>
#include <iterator>

#include "anyaccel/error.h"
#include "launch/plan_parts.h"

namespace anyaccel::launch {

namespace {

using topology::CpuList;
using topology::Machine;

constexpr const char* kWhere = "launch";

void check_list(const Machine& machine, const CpuList& list) {
  const auto allowed = machine.cpus();
  const auto usable = topology::intersect(list, allowed);
  if (usable.size() == list.size() && !list.empty()) return;
  CpuList missing;
  std::set_difference(list.begin(), list.end(), usable.begin(), usable.end(),
                      std::back_inserter(missing));
  throw Error(
      ErrorCode::invalid_argument, kWhere,
      {.what = "--bind_core_list contains CPUs that do not exist or that this process may not use",
       .got = list.empty() ? "an empty list" : topology::format_cpu_list(missing),
       .want = "CPUs from " + topology::format_cpu_list(allowed)});
}

}  // namespace

std::string count_of(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Cores usable_cores(const Machine& machine, const PlanOptions& options) {
  if (options.core_list) check_list(machine, *options.core_list);
  Cores cores;
  for (const auto& core : machine.cores) {
    auto cpus = options.core_list ? topology::intersect(core.cpus, *options.core_list)
                                  : CpuList{core.cpus.front()};
    if (cpus.empty()) continue;
    cores.all.push_back(cores.cpus.size());
    cores.cpus.push_back(std::move(cpus));
    cores.places.push_back({core.package, core.node});
  }
  const auto total = cores.all.size();
  const int asked = options.reserve_cores;
  if (total == 0)
    throw Error(ErrorCode::unavailable, kWhere, {.what = "the machine has no usable cores"});
  if (asked < 0 || static_cast<std::size_t>(asked) >= total)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "--reserve_cores leaves no cores for the ranks",
                 .got = std::to_string(asked) + " of " + count_of(total, "core"),
                 .want = "0 to " + std::to_string(total - 1)});
  return cores;
}

std::set<int> nodes_of(const Cores& cores, const CoreIndices& share) {
  std::set<int> nodes;
  for (const std::size_t core : share)
    if (cores.places[core].node >= 0) nodes.insert(cores.places[core].node);
  return nodes;
}

}  // namespace anyaccel::launch
