// Binds the calling thread and the processes that it later starts to CPUs and NUMA nodes.
#pragma once

#include <string>
#include <vector>

#include "topology/cpu_list.h"

namespace anyaccel::topology {

/// Binds the thread to exactly these CPUs. Returns "" on success, otherwise the reason: the
/// system's error, or the CPUs that the system allowed instead.
std::string bind_cpus(const CpuList& cpus);

/// Makes the thread allocate memory from these NUMA nodes (the operating system's numbers):
/// exclusively if `strict`, otherwise preferably. Returns "" on success, otherwise the reason.
/// Never changes the CPUs.
std::string bind_memory(const std::vector<int>& nodes, bool strict);

}  // namespace anyaccel::topology
