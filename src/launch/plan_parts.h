// What plan.cpp is made of; private to src/launch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "launch/partition.h"
#include "launch/plan.h"

namespace anyaccel::launch {

/// Cores that may be used, each with the CPUs that a rank is bound to.
struct Cores {
  std::vector<topology::CpuList> cpus;
  std::vector<Place> places;
  CoreIndices all;  ///< indices of all of them
};

/// The machine's cores within `core_list`, more than `reserve_cores`. Throws as plan_host() does.
Cores usable_cores(const topology::Machine& machine, const PlanOptions& options);

/// Indices into Machine::nodes of the nodes that some cores belong to.
std::set<int> nodes_of(const Cores& cores, const CoreIndices& share);

/// "1 core", "2 cores".
std::string count_of(std::size_t count, const char* noun);

/// Takes `count` cores from those who have most, the last ones of their fullest nodes; nobody's
/// last one. What was taken is returned for each.
std::vector<CoreIndices> take_reserved(const Cores& cores, std::vector<CoreIndices>& shares,
                                       int count);

/// What a user may wonder about in a plan with bound ranks.
void add_notes(const topology::Machine& machine, const Cores& cores, const PlanOptions& options,
               const std::vector<CoreIndices>& shares, std::vector<std::string>& notes);

}  // namespace anyaccel::launch
