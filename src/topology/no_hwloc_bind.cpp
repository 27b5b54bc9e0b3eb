// Binding without hwloc. Only CPUs are supported.
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "topology/bind.h"
#include "topology/topology.h"

namespace anyaccel::topology {

std::string bind_cpus(const CpuList& cpus) {
  const std::size_t count = cpus.empty() ? 1 : static_cast<std::size_t>(cpus.back()) + 1;
  cpu_set_t* const set = CPU_ALLOC(count);
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  const int error = ::sched_setaffinity(0, bytes, set) == 0 ? 0 : errno;
  CPU_FREE(set);
  if (error != 0) return std::strerror(error);
  const auto given = allowed_cpus();
  return given == cpus ? "" : "the system allowed only CPUs " + format_cpu_list(given);
}

std::string bind_memory(const std::vector<int>&, bool) {
  return "AnyAccel was built without hwloc";
}

}  // namespace anyaccel::topology
