// Binds threads and memory with hwloc.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "topology/bind.h"
#include "topology/hwloc_topology.h"
#include "topology/topology.h"

namespace anyaccel::topology {

namespace {

using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

Bitmap to_bitmap(const std::vector<int>& numbers) {
  Bitmap bitmap(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  for (const int number : numbers) hwloc_bitmap_set(bitmap.get(), static_cast<unsigned>(number));
  return bitmap;
}

/// Returns this machine's topology, which is loaded once and used for both CPUs and memory. Plans
/// use operating-system numbers, which hwloc knows only after it has loaded a topology.
const Topology& loaded() {
  static const auto& topology = *[] {
    const WithoutPlugins fast;
    auto* const made = new Topology;
    if (hwloc_topology_load(made->get()) != 0)
      throw Error(ErrorCode::unavailable, "topology",
                  {.what = "hwloc cannot read this machine's topology"});
    return made;
  }();
  return topology;
}

std::string reason(int error) {
  // hwloc's error codes for "not supported by the system" and "cannot be enforced".
  if (error == ENOSYS) return "the system does not support it";
  if (error == EXDEV) return "the system cannot bind to that set";
  return std::strerror(error);
}

}  // namespace

std::string bind_cpus(const CpuList& cpus) {
  const auto set = to_bitmap(cpus);
  if (hwloc_set_cpubind(loaded().get(), set.get(),
                        HWLOC_CPUBIND_THREAD | HWLOC_CPUBIND_NOMEMBIND) != 0)
    return reason(errno);
  // Linux silently drops CPUs that the cpuset does not allow.
  const auto given = allowed_cpus();
  return given == cpus ? "" : "the system allowed only CPUs " + format_cpu_list(given);
}

std::string bind_memory(const std::vector<int>& nodes, bool strict) {
  const auto set = to_bitmap(nodes);
  const int flags = HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_NOCPUBIND |
                    (strict ? HWLOC_MEMBIND_STRICT : 0);
  // Without HWLOC_MEMBIND_STRICT, the binding is only a preference. It covers more than one node if
  // the kernel supports that (Linux 5.15 or later).
  if (hwloc_set_membind(loaded().get(), set.get(), HWLOC_MEMBIND_BIND, flags) == 0) return "";
  // For example, Docker's default profile allows set_mempolicy() only with CAP_SYS_NICE.
  const bool forbidden = errno == EPERM;
  return reason(errno) +
         (forbidden ? " (containers often forbid it; docker run --cap-add SYS_NICE allows it)"
                    : "");
}

}  // namespace anyaccel::topology
