// Binding of the calling thread, and of what it starts by fork and exec.
#pragma once

#include <string>
#include <vector>

#include "topology/cpu_list.h"

namespace anyaccel::topology {

/// Binds to CPUs. Returns "" when the thread may run on exactly those now, otherwise why not: what
/// the system says, or what it gave instead.
std::string bind_cpus(const CpuList& cpus);

/// Takes memory from NUMA nodes (operating system's numbers): from nowhere else, or, when not
/// `strict`, from there while there is room. Returns "" when the system obeyed, otherwise why not.
/// Never changes the CPUs.
std::string bind_memory(const std::vector<int>& nodes, bool strict);

}  // namespace anyaccel::topology
