#include "topology/memory_limit.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "topology/control_group.h"

namespace anyaccel::topology {

void MemoryAmount::limit_to(const MemoryAmount& other) {
  if (other.total < total) {
    total = other.total;
    total_from = other.total_from;
  }
  if (other.available < available) {
    available = other.available;
    available_from = other.available_from;
  }
}

MemoryAmount host_memory(const std::filesystem::path& root) {
  const auto path = root / "proc/meminfo";
  const auto text = try_read_kernel_file(path.native());
  if (!text) return {};
  const auto total = number_after(*text, "MemTotal:");
  const auto available = number_after(*text, "MemAvailable:");
  MemoryAmount amount;
  if (total) amount = {*total * 1024, *total * 1024, path.string(), path.string()};
  if (available) amount.available = *available * 1024;
  return amount;
}

MemoryAmount node_memory(const std::vector<int>& os_indices, const std::filesystem::path& root) {
  MemoryAmount sum{0, 0, {}, {}};
  for (const int index : os_indices) {
    const auto path =
        root / "sys/devices/system/node" / ("node" + std::to_string(index)) / "meminfo";
    const auto text = try_read_file(path).value_or("");
    const auto total = number_after(text, "MemTotal:");
    const auto free = number_after(text, "MemFree:");
    if (!total || !free) return {};
    // The kernel does not report MemAvailable per node. Estimate it as the sum of the node's free
    // pages, reclaimable file pages and reclaimable slabs.
    const auto reclaimable = number_after(text, "Inactive(file):").value_or(0) +
                             number_after(text, "Active(file):").value_or(0) +
                             number_after(text, "SReclaimable:").value_or(0);
    sum.total += *total * 1024;
    sum.available += std::min(*total, *free + reclaimable) * 1024;
    sum.total_from = sum.available_from = path.string();
  }
  return os_indices.empty() ? MemoryAmount{} : sum;
}

MemoryAmount usable_memory(const std::vector<int>& os_indices, const std::filesystem::path& root) {
  auto amount = host_memory(root);
  amount.limit_to(node_memory(os_indices, root));
  amount.limit_to(control_group_memory(root));
  // A group's usage may exceed its limit while pages are being reclaimed.
  amount.available = std::clamp<std::int64_t>(amount.available, 0, amount.total);
  return amount;
}

std::vector<int> memory_nodes(const Machine& machine, int node) {
  const auto& own = machine.nodes[static_cast<std::size_t>(node)];
  std::set<int> found{own.os_index};
  for (const auto& other : machine.nodes) {
    const bool ours = other.kind == MemoryKind::hbm || other.kind == MemoryKind::other;
    if (ours && other.cpus.empty() && !intersect(other.near_cpus, own.cpus).empty())
      found.insert(other.os_index);
  }
  return {found.begin(), found.end()};
}

}  // namespace anyaccel::topology
