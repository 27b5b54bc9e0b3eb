// Binds the calling thread, and processes that it starts afterwards, to CPUs and NUMA nodes.
#pragma once

#include <string>
#include <vector>

#include "topology/cpu_list.h"

namespace anyaccel::topology {

/// Binds the thread to exactly these CPUs. Returns "" on success, otherwise the reason: the
/// system's error, or a text that names the CPUs that the system allowed instead.
std::string bind_cpus(const CpuList& cpus);

/// Makes the thread allocate memory from these NUMA nodes (the operating system's numbers): only
/// from them if `strict`, otherwise preferably from them. Returns "" on success, otherwise the
/// reason. Does not change the thread's CPU binding.
std::string bind_memory(const std::vector<int>& nodes, bool strict);

}  // namespace anyaccel::topology
