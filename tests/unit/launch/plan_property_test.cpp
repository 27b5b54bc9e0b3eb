// Checks properties of plans for random machines and options. A failure prints the seed of its
// case. hwloc is not needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "anyaccel/error.h"
#include "launch/plan.h"

namespace anyaccel::launch {
namespace {

using topology::CpuList;
using topology::Machine;
using topology::MemoryKind;

int below(std::mt19937& random, int limit) {
  return static_cast<int>(random() % static_cast<unsigned>(limit));
}

/// Creates a machine with random packages, NUMA nodes and cores. Node numbers have gaps, cores have
/// one to four threads with adjacent or distant numbers, and some nodes have no cores or no memory.
/// In half of the cases, the process may use only some of the CPUs.
Machine random_machine(std::mt19937& random) {
  Machine machine;
  const int threads = 1 + below(random, 4);
  int number = 0, cores = 0;
  for (int package = 0, packages = 1 + below(random, 3); package < packages; ++package)
    for (int node = 0, nodes = 1 + below(random, 4); node < nodes; ++node) {
      number += 1 + below(random, 3);
      machine.nodes.push_back({.os_index = number, .memory = below(random, 8) == 0 ? 0 : 1 << 20});
      for (int core = 0, count = below(random, 9); core < count; ++core, ++cores)
        machine.cores.push_back(
            {.package = package, .node = static_cast<int>(machine.nodes.size()) - 1});
    }
  if (cores == 0) machine.cores.push_back({.package = 0, .node = 0});
  const bool apart = below(random, 2) == 0;
  const int count = static_cast<int>(machine.cores.size());
  for (int core = 0; core < count; ++core)
    for (int thread = 0; thread < threads; ++thread)
      machine.cores[static_cast<std::size_t>(core)].cpus.push_back(apart ? thread * count + core
                                                                         : core * threads + thread);
  for (auto& core : machine.cores) {
    auto& node = machine.nodes[static_cast<std::size_t>(core.node)];
    node.near_cpus.insert(node.near_cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  for (auto& node : machine.nodes) std::sort(node.near_cpus.begin(), node.near_cpus.end());
  for (std::size_t i = 0, ordinary = machine.nodes.size(); i < ordinary; ++i)
    if (below(random, 4) == 0)
      machine.nodes.push_back({.os_index = ++number,
                               .kind = static_cast<MemoryKind>(1 + below(random, 4)),
                               .memory = 1 << 20,
                               .near_cpus = machine.nodes[i].near_cpus});
  topology::assign_cores(machine);
  if (below(random, 2) == 0) return machine;
  CpuList allowed;
  for (const int cpu : machine.cpus())
    if (below(random, 4) != 0) allowed.push_back(cpu);
  return allowed.empty() ? machine : topology::restrict_to(machine, allowed);
}

PlanOptions random_options(std::mt19937& random, const Machine& machine) {
  PlanOptions options{.ranks = below(random, 13), .oversubscribe = below(random, 4) == 0};
  if (below(random, 3) == 0) options.reserve_cores = below(random, 4);
  if (below(random, 3) == 0) {
    options.core_list.emplace();
    for (const int cpu : machine.cpus())
      if (below(random, 3) != 0) options.core_list->push_back(cpu);
    if (options.core_list->empty()) options.core_list.reset();
  }
  return options;
}

/// Maps each CPU to the index of its core.
std::map<int, std::size_t> cores_by_cpu(const Machine& machine) {
  std::map<int, std::size_t> cores;
  for (std::size_t i = 0; i < machine.cores.size(); ++i)
    for (const int cpu : machine.cores[i].cpus) cores[cpu] = i;
  return cores;
}

struct Checked {
  std::set<std::size_t> all;                   ///< cores that are reserved or used by a rank
  std::map<int, std::set<std::size_t>> sizes;  ///< core counts of the ranks on each node
  std::size_t least = SIZE_MAX, most = 0;
  bool inside = true;  ///< whether every rank is within one node
};

Checked check_ranks(const Machine& machine, const PlanOptions& options, const HostPlan& plan,
                    bool shared) {
  const auto core_of = cores_by_cpu(machine);
  Checked checked;
  for (const auto& rank : plan.ranks) {
    EXPECT_FALSE(rank.cores.empty());
    EXPECT_TRUE(std::is_sorted(rank.cores.begin(), rank.cores.end()));
    EXPECT_EQ(rank.threads, static_cast<int>(rank.cores.size()));
    std::set<std::size_t> cores;
    std::set<int> nodes;
    for (const int cpu : rank.cores) {
      EXPECT_TRUE(core_of.contains(cpu));  // the CPU must be allowed
      if (options.core_list) {
        EXPECT_TRUE(std::binary_search(options.core_list->begin(), options.core_list->end(), cpu));
      }
      cores.insert(core_of.at(cpu));
      nodes.insert(machine.cores[core_of.at(cpu)].node);
    }
    if (!options.core_list) {
      EXPECT_EQ(cores.size(), rank.cores.size()) << "two threads of one core";
    }
    for (const std::size_t core : cores)
      EXPECT_TRUE(checked.all.insert(core).second || shared) << "a core is used twice";
    if (nodes.size() == 1) checked.sizes[*nodes.begin()].insert(cores.size());
    if (nodes.size() > 1) checked.inside = false;
    checked.least = std::min(checked.least, cores.size());
    checked.most = std::max(checked.most, cores.size());
    // A rank's memory is on the nodes of its cores, or on HBM next to them.
    EXPECT_EQ(rank.memory_nodes.empty(), rank.policy == MemoryPolicy::none);
    for (const auto& node : machine.nodes) {
      if (!std::count(rank.memory_nodes.begin(), rank.memory_nodes.end(), node.os_index)) continue;
      EXPECT_GT(node.memory, 0);
      EXPECT_FALSE(topology::intersect(node.near_cpus, rank.cores).empty());
      EXPECT_EQ(rank.policy == MemoryPolicy::preferred,
                node.cpus.empty() && node.kind == MemoryKind::hbm);
      if (node.cpus.empty()) {
        EXPECT_EQ(node.kind, MemoryKind::hbm);
      }
    }
  }
  for (const int cpu : plan.reserved) {
    const bool fresh = checked.all.insert(core_of.at(cpu)).second;
    // If a core list contains several threads of a reserved core, all of these threads are
    // reserved.
    EXPECT_TRUE(fresh || options.core_list) << "a rank uses a reserved core";
    for (const auto& rank : plan.ranks)
      EXPECT_FALSE(std::count(rank.cores.begin(), rank.cores.end(), cpu));
  }
  return checked;
}

// Fails if a plan violates an invariant: no core is assigned twice, every bound CPU is allowed and
// listed, memory is local, and cores are divided evenly.
TEST(PlanProperty, HoldsForRandomMachines) {
  constexpr unsigned kSeeds = 4000;
  unsigned planned = 0, refused = 0, straddled = 0;
  for (unsigned seed = 0; seed < kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto machine = random_machine(random);
    const auto options = random_options(random, machine);
    std::size_t usable = 0;
    std::set<int> nodes;
    for (const auto& core : machine.cores)
      if (!options.core_list || !topology::intersect(core.cpus, *options.core_list).empty())
        ++usable, nodes.insert(core.node);
    const auto reserved = static_cast<std::size_t>(options.reserve_cores);
    HostPlan plan;
    try {
      plan = plan_host(machine, options);
    } catch (const Error& error) {
      ++refused;
      const bool many =
          !options.oversubscribe && usable > reserved &&
          static_cast<std::size_t>(options.ranks) > (usable - reserved) * kRanksPerCore;
      EXPECT_TRUE(many || reserved >= usable) << error.what();
      continue;
    }
    ++planned;
    if (options.ranks > 0) {
      EXPECT_EQ(plan.ranks.size(), static_cast<std::size_t>(options.ranks));
    }
    const std::size_t ranks = plan.ranks.size();
    const bool shared = ranks + reserved > usable;
    const auto checked = check_ranks(machine, options, plan, shared);
    EXPECT_EQ(checked.all.size(), usable) << "a core is idle";
    if (shared || reserved > 0) continue;
    if (!checked.inside && ranks >= nodes.size()) {
      // A rank may span several nodes only if some rank would otherwise get fewer than half as many
      // cores as in an even division.
      ++straddled;
      EXPECT_GE(2 * checked.least * ranks, usable);
    }
    for (const auto& [node, sizes] : checked.sizes)
      if (checked.inside) {
        EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1u) << "uneven on node " << node;
      }
    if (nodes.size() == 1 && ranks > 0) {
      EXPECT_LE(checked.most - checked.least, 1u);
    }
  }
  // The random cases must include plans, errors and ranks that span several nodes.
  EXPECT_GT(planned, kSeeds / 2);
  EXPECT_GT(refused, kSeeds / 100);
  EXPECT_GT(straddled, kSeeds / 1000);
}

}  // namespace
}  // namespace anyaccel::launch
