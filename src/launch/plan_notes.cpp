#include <algorithm>

#include "launch/plan_parts.h"

namespace anyaccel::launch {

namespace {

using topology::Machine;

void note_threads(const Machine& machine, const Cores& cores, const PlanOptions& options,
                  std::vector<std::string>& notes) {
  std::size_t named = 0;
  for (const auto& cpus : cores.cpus) named += cpus.size();
  const auto all = machine.cpus().size();
  if (!options.core_list && named < all)
    notes.push_back("One hardware thread per core is used: " + std::to_string(named) + " of " +
                    count_of(all, "CPU") +
                    "; list all CPUs in --bind_core_list to use all threads.");
  if (options.core_list && named > cores.cpus.size())
    notes.push_back("--bind_core_list contains several hardware threads of the same core: " +
                    count_of(named, "thread") + " on " + count_of(cores.cpus.size(), "core") + ".");
}

/// Returns the ranks that have cores on more than one NUMA node.
std::vector<int> reaching(const Cores& cores, const std::vector<CoreIndices>& shares) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < shares.size(); ++r)
    if (nodes_of(cores, shares[r]).size() > 1) ranks.push_back(static_cast<int>(r));
  return ranks;
}

void note_shares(const Cores& cores, const std::vector<CoreIndices>& shares,
                 std::vector<std::string>& notes) {
  const auto smaller = [](const CoreIndices& a, const CoreIndices& b) {
    return a.size() < b.size();
  };
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end(), smaller);
  const auto nodes = nodes_of(cores, cores.all).size();
  const auto over = reaching(cores, shares);
  if (!over.empty()) {
    const auto who = (over.size() == 1 ? "rank " : "ranks ") + topology::format_cpu_list(over);
    const auto have = who + (over.size() == 1 ? " has" : " have") + " cores on several";
    notes.push_back(shares.size() < nodes
                        ? "Fewer ranks (" + std::to_string(shares.size()) + ") than NUMA nodes (" +
                              std::to_string(nodes) + "): " + have + "."
                        : "To give every rank at least half of an even share, " + have +
                              " NUMA nodes.");
  }
  if (most->size() > least->size() + 1)
    notes.push_back("Ranks have " + std::to_string(least->size()) + " to " +
                    count_of(most->size(), "core") +
                    (over.empty() ? ", so that none has cores on two NUMA nodes." : "."));
}

}  // namespace

void add_notes(const Machine& machine, const Cores& cores, const PlanOptions& options,
               const std::vector<CoreIndices>& shares, std::vector<std::string>& notes) {
  note_threads(machine, cores, options, notes);
  if (shares.size() <= cores.all.size()) note_shares(cores, shares, notes);
}

}  // namespace anyaccel::launch
