#include "launch/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "anyaccel/error.h"
#include "launch/plan_parts.h"

namespace anyaccel::launch {

namespace {

using topology::CpuList;
using topology::Machine;
using topology::MemoryKind;

constexpr const char* kWhere = "launch";

/// Returns the default number of ranks: one per NUMA node with cores, but at least one and at most
/// `free`.
int default_ranks(const Cores& cores, std::size_t free) {
  const auto nodes = nodes_of(cores, cores.all).size();
  return static_cast<int>(std::clamp<std::size_t>(nodes, 1, free));
}

/// Gives each rank one core, which it shares with other ranks.
std::vector<CoreIndices> deal_shared(const CoreIndices& cores, int ranks) {
  std::vector<CoreIndices> shares;
  for (std::size_t r = 0, count = static_cast<std::size_t>(ranks); r < count; ++r)
    shares.push_back({cores[r * cores.size() / count]});
  return shares;
}

/// Returns the index of the node that is closest to a rank's device, or -1 if it is unknown or not
/// a node on this machine.
int device_node(const Machine& machine, const PlanOptions& options, std::size_t rank) {
  if (rank >= options.device_nodes.size() || options.device_nodes[rank] < 0) return -1;
  for (std::size_t i = 0; i < machine.nodes.size(); ++i)
    if (machine.nodes[i].os_index == options.device_nodes[rank]) return static_cast<int>(i);
  return -1;
}

/// Places each rank on its device's node while that node has cores left, and the other ranks on the
/// remaining cores. Returns an empty list if no device's node is known or too few cores remain.
std::vector<CoreIndices> deal_by_device(const Machine& machine, const Cores& cores,
                                        const PlanOptions& options, int ranks,
                                        std::vector<std::string>& notes) {
  std::map<int, CoreIndices> free;
  for (const std::size_t core : cores.all) free[cores.places[core].node].push_back(core);
  std::map<int, std::vector<std::size_t>> placed;
  std::vector<std::size_t> others;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    const int node = device_node(machine, options, rank);
    const auto found = node < 0 ? free.end() : free.find(node);
    const bool room = found != free.end() && placed[node].size() < found->second.size();
    (room ? placed[node] : others).push_back(rank);
  }
  std::erase_if(placed, [](const auto& entry) { return entry.second.empty(); });
  if (placed.empty()) return {};
  CoreIndices rest;
  for (const std::size_t core : cores.all)
    if (!placed.contains(cores.places[core].node)) rest.push_back(core);
  if (rest.size() < others.size()) {
    notes.emplace_back(
        "Ranks are not bound to cores near their devices: too few cores are available.");
    return {};
  }
  std::vector<CoreIndices> shares(static_cast<std::size_t>(ranks));
  for (const auto& [node, members] : placed) {
    auto dealt = deal_evenly(free[node], static_cast<int>(members.size()));
    for (std::size_t i = 0; i < members.size(); ++i) shares[members[i]] = std::move(dealt[i]);
  }
  if (!others.empty()) {
    auto dealt = deal(cores.places, rest, static_cast<int>(others.size()));
    for (std::size_t i = 0; i < others.size(); ++i) shares[others[i]] = std::move(dealt[i]);
  } else if (!rest.empty()) {
    notes.push_back(count_of(rest.size(), "core") +
                    " on NUMA nodes without a rank's device remain unused.");
  }
  return shares;
}

CpuList cpus_of(const Cores& cores, const CoreIndices& share) {
  CpuList cpus;
  for (const std::size_t core : share)
    cpus.insert(cpus.end(), cores.cpus[core].begin(), cores.cpus[core].end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

void choose_memory(const Machine& machine, const std::set<int>& nodes, RankPlan& rank) {
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    const auto& node = machine.nodes[i];
    const bool beside = node.kind == MemoryKind::hbm && node.cpus.empty() && node.memory > 0 &&
                        !topology::intersect(node.near_cpus, rank.cores).empty();
    if (beside) rank.memory_nodes.push_back(node.os_index);
  }
  rank.policy = MemoryPolicy::preferred;
  if (!rank.memory_nodes.empty()) return;
  for (const int i : nodes)
    if (const auto& node = machine.nodes[static_cast<std::size_t>(i)]; node.memory > 0)
      rank.memory_nodes.push_back(node.os_index);
  std::sort(rank.memory_nodes.begin(), rank.memory_nodes.end());
  rank.policy = rank.memory_nodes.empty() ? MemoryPolicy::none : MemoryPolicy::bind;
}

[[noreturn]] void fail(int ranks, std::size_t free, int reserved) {
  const auto beside = reserved > 0 ? " (plus " + std::to_string(reserved) + " reserved)" : "";
  throw Error(ErrorCode::invalid_argument, kWhere,
              {.what = "too many ranks for the cores",
               .got = count_of(static_cast<std::size_t>(ranks), "rank") + " on " +
                      count_of(free, "core") + beside,
               .want = "at most " + std::to_string(kRanksPerCore) + " ranks per core",
               .hint = "start fewer ranks, or pass --oversubscribe"});
}

}  // namespace

const char* to_string(MemoryPolicy policy) noexcept {
  switch (policy) {
    case MemoryPolicy::none: return "none";
    case MemoryPolicy::bind: return "bind";
    case MemoryPolicy::preferred: return "preferred";
  }
  return "none";
}

int default_ranks(const Machine& machine, const PlanOptions& options) {
  const Cores cores = usable_cores(machine, options);
  return default_ranks(cores, cores.all.size() - static_cast<std::size_t>(options.reserve_cores));
}

HostPlan plan_host(const Machine& machine, const PlanOptions& options) {
  const Cores cores = usable_cores(machine, options);
  const auto free = cores.all.size() - static_cast<std::size_t>(options.reserve_cores);
  const int ranks = options.ranks == 0 ? default_ranks(cores, free) : options.ranks;
  if (ranks < 0)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "the number of ranks is negative", .got = std::to_string(ranks)});
  const bool too_many = static_cast<std::size_t>(ranks) > free;
  const bool matters = options.bind || options.compute_on_cores;
  const bool allowed =
      options.oversubscribe || static_cast<std::size_t>(ranks) <= free * kRanksPerCore;
  if (too_many && matters && !allowed) fail(ranks, free, options.reserve_cores);

  HostPlan plan;
  std::vector<CoreIndices> shares, reserved;
  if (too_many) {
    const auto last = cores.all.begin() + static_cast<std::ptrdiff_t>(free);
    shares = deal_shared({cores.all.begin(), last}, ranks);
    reserved.assign(shares.size(), {last, cores.all.end()});
    const auto who =
        count_of(static_cast<std::size_t>(ranks), "rank") + " share " + count_of(free, "core");
    if (matters && options.oversubscribe) plan.notes.push_back(who + ".");
    if (matters && !options.oversubscribe)
      plan.warnings.push_back(
          who + " and slow each other down; pass --oversubscribe to suppress this warning");
  } else {
    shares = deal_by_device(machine, cores, options, ranks, plan.notes);
    if (shares.empty()) shares = deal(cores.places, cores.all, ranks);
    reserved = take_reserved(cores, shares, options.reserve_cores);
  }
  for (std::size_t r = 0; r < shares.size(); ++r) {
    RankPlan rank;
    rank.local_rank = static_cast<int>(r);
    rank.cores = cpus_of(cores, shares[r]);
    rank.reserved = cpus_of(cores, reserved[r]);
    rank.threads = static_cast<int>(rank.cores.size());
    plan.reserved.insert(plan.reserved.end(), rank.reserved.begin(), rank.reserved.end());
    if (options.bind)
      choose_memory(machine, nodes_of(cores, shares[r]), rank);
    else
      rank.cores.clear();
    plan.ranks.push_back(std::move(rank));
  }
  std::sort(plan.reserved.begin(), plan.reserved.end());
  plan.reserved.erase(std::unique(plan.reserved.begin(), plan.reserved.end()), plan.reserved.end());
  if (options.bind) add_notes(machine, cores, options, shares, plan.notes);
  return plan;
}

}  // namespace anyaccel::launch
