// Helpers for plan.cpp. Internal to src/launch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "launch/partition.h"
#include "launch/plan.h"

namespace anyaccel::launch {

/// Usable cores. For each core, `cpus` lists the CPUs that a rank on that core is bound to.
struct Cores {
  std::vector<topology::CpuList> cpus;
  std::vector<Place> places;
  CoreIndices all;  ///< indices of all cores
};

/// Returns the machine's cores in `core_list`. Throws the same error as plan_host() if there are at
/// most `reserve_cores` of them.
Cores usable_cores(const topology::Machine& machine, const PlanOptions& options);

/// Returns the nodes of one rank's cores, `share`, as indices into Machine::nodes.
std::set<int> nodes_of(const Cores& cores, const CoreIndices& share);

/// Returns a count with its noun: "1 core", "2 cores".
std::string count_of(std::size_t count, const char* noun);

/// Takes `count` cores away from the ranks, one at a time: from the rank that has the most cores,
/// and from the node where this rank has the most cores. Never takes a rank's last core. Returns
/// the cores taken from each rank.
std::vector<CoreIndices> take_reserved(const Cores& cores, std::vector<CoreIndices>& shares,
                                       int count);

/// Adds notes that explain surprising properties of a plan whose ranks are bound.
void add_notes(const topology::Machine& machine, const Cores& cores, const PlanOptions& options,
               const std::vector<CoreIndices>& shares, std::vector<std::string>& notes);

}  // namespace anyaccel::launch
