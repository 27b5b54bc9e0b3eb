#include "launch/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"
#include "launch/core_list.h"
#include "unit/support/saved_machine.h"

namespace anyaccel::launch {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Plan = test::SavedMachineTest;

std::vector<std::string> cores_of(const HostPlan& plan) {
  std::vector<std::string> texts;
  for (const auto& rank : plan.ranks) texts.push_back(topology::format_cpu_list(rank.cores));
  return texts;
}

std::vector<std::vector<int>> memory_of(const HostPlan& plan) {
  std::vector<std::vector<int>> nodes;
  for (const auto& rank : plan.ranks) nodes.push_back(rank.memory_nodes);
  return nodes;
}

std::string refusal(const topology::Machine& machine, const PlanOptions& options) {
  try {
    plan_host(machine, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

// Fails if the CPU accelerator's default is not one rank per NUMA node with cores. Memory-only
// nodes and packages do not count.
TEST_F(Plan, OneRankPerNodeWithCoresByDefault) {
  EXPECT_EQ(default_ranks(saved("two_nodes_siblings_apart")), 2);
  EXPECT_EQ(default_ranks(saved("xeon_max_flat_snc4")), 8);
  EXPECT_EQ(default_ranks(saved("power9_gpu")), 2);
  EXPECT_EQ(default_ranks(saved("grace_hopper")), 1);
  EXPECT_EQ(default_ranks(saved("two_sockets_one_node")), 1);
  EXPECT_EQ(default_ranks(saved("sockets_of_56"), {.core_list = parse_core_list("0-9")}), 1);
  EXPECT_EQ(plan_host(saved("clusters_snc2"), {}).ranks.size(), 4u);
}

// Fails if adjacent numbering of hardware threads places both ranks on the first node, or hardware
// threads count as cores.
TEST_F(Plan, BothNumberingsOfSiblings) {
  const auto adjacent = plan_host(saved("two_nodes_siblings_adjacent"), {.ranks = 2});
  EXPECT_THAT(cores_of(adjacent), ElementsAre("0,2,4,6", "8,10,12,14"));
  EXPECT_EQ(adjacent.ranks[0].threads, 4);
  EXPECT_THAT(adjacent.notes, Contains(HasSubstr("8 of 16 CPUs")));
  const auto apart = plan_host(saved("two_nodes_siblings_apart"), {.ranks = 2});
  EXPECT_THAT(cores_of(apart), ElementsAre("0-3", "4-7"));
}

// Fails if leftover cores stay idle: 3 ranks on 8 cores must use all 8.
TEST_F(Plan, LeftoverCoresAreUsed) {
  const auto plan = plan_host(saved("one_node_8_cores"), {.ranks = 3});
  EXPECT_THAT(cores_of(plan), ElementsAre("0-2", "3-5", "6-7"));
  EXPECT_EQ(plan.ranks[2].threads, 2);
}

// Fails if a node number is mistaken for an index. Rank 1 would then not get a memory policy for
// node 8.
TEST_F(Plan, NodeNumbersWithGaps) {
  EXPECT_THAT(memory_of(plan_host(saved("nodes_0_and_8"), {})),
              ElementsAre(ElementsAre(0), ElementsAre(8)));
}

// Fails if HBM is not preferred, or GPU, CXL or unknown memory is mistaken for HBM.
TEST_F(Plan, OnlyHbmIsPreferred) {
  const auto flat = plan_host(saved("hbm_flat"), {});
  EXPECT_THAT(memory_of(flat), ElementsAre(ElementsAre(1), ElementsAre(2)));
  EXPECT_EQ(flat.ranks[0].policy, MemoryPolicy::preferred);
  for (const auto* const name :
       {"unknown_memory", "cxl", "power9_gpu", "grace_hopper", "fake_nodes"}) {
    const auto machine = saved(name);
    for (const auto& rank : plan_host(machine, {}).ranks) {
      EXPECT_EQ(rank.policy, MemoryPolicy::bind) << name;
      for (const auto& node : machine.nodes)
        if (node.cpus.empty()) {
          EXPECT_THAT(rank.memory_nodes, testing::Not(Contains(node.os_index))) << name;
        }
    }
  }
  EXPECT_EQ(plan_host(saved("xeon_max_hbm_only"), {}).ranks[7].policy, MemoryPolicy::bind);
}

// Fails if a rank is bound to memory that does not exist or is not allowed.
TEST_F(Plan, NodesWithoutMemory) {
  const auto dies = plan_host(saved("dies_without_memory"), {});
  EXPECT_EQ(dies.ranks[1].policy, MemoryPolicy::none);
  EXPECT_THAT(dies.ranks[1].memory_nodes, IsEmpty());
  EXPECT_THAT(dies.ranks[2].memory_nodes, ElementsAre(2));
  EXPECT_EQ(plan_host(saved("memory_of_node_0_only"), {}).ranks[1].policy, MemoryPolicy::none);
}

// Fails if the core list in the documentation does not leave four cores of each socket free.
TEST_F(Plan, DocumentedCoreList) {
  const auto plan =
      plan_host(saved("sockets_of_56"), {.ranks = 2, .core_list = parse_core_list("0-51,56-107")});
  EXPECT_THAT(cores_of(plan), ElementsAre("0-51", "56-107"));
  EXPECT_EQ(plan.ranks[1].threads, 52);
  EXPECT_THAT(plan.ranks[1].memory_nodes, ElementsAre(1));
}

// Fails if two listed hardware threads of one core are given to different ranks, or one of them is
// dropped.
TEST_F(Plan, ListedSiblingsStayTogether) {
  const auto plan = plan_host(saved("two_nodes_siblings_apart"),
                              {.ranks = 4, .core_list = parse_core_list("0-15")});
  EXPECT_THAT(cores_of(plan), ElementsAre("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"));
  EXPECT_EQ(plan.ranks[0].threads, 4);
}

// Fails if CPUs outside the allowed set are bound or silently dropped.
TEST_F(Plan, AllowedCpusOnly) {
  EXPECT_THAT(cores_of(plan_host(saved("container_cpuset"), {.ranks = 2})), ElementsAre("8", "10"));
  EXPECT_THAT(refusal(saved("container_cpuset"), {.core_list = parse_core_list("6-9")}),
              AllOf(HasSubstr("--bind_core_list"), HasSubstr("got 6-7"), HasSubstr("8-11")));
  EXPECT_THAT(cores_of(plan_host(saved("step_second_threads"), {})), ElementsAre("8-11", "12-15"));
}

// Fails if more than four ranks per core are accepted without --oversubscribe, or up to four ranks
// per core share cores without a warning.
TEST_F(Plan, MoreRanksThanCores) {
  const auto machine = saved("one_node_8_cores");
  for (const bool bind : {true, false}) {
    EXPECT_THAT(refusal(machine, {.ranks = 33, .bind = bind}),
                AllOf(HasSubstr("33 ranks on 8 cores"), HasSubstr("at most 4 ranks per core"),
                      HasSubstr("--oversubscribe")));
    for (const int ranks : {9, 32}) {
      const auto plan = plan_host(machine, {.ranks = ranks, .bind = bind});
      EXPECT_EQ(plan.ranks.size(), static_cast<std::size_t>(ranks));
      EXPECT_THAT(plan.warnings,
                  ElementsAre(AllOf(HasSubstr(std::to_string(ranks) + " ranks share 8 cores"),
                                    HasSubstr("--oversubscribe"))));
      EXPECT_THAT(plan.notes, Not(Contains(HasSubstr("share"))));
    }
    EXPECT_THAT(plan_host(machine, {.ranks = 8, .bind = bind}).warnings, IsEmpty());
  }
  const auto shared = plan_host(machine, {.ranks = 40, .oversubscribe = true});
  EXPECT_EQ(shared.ranks.size(), 40u);
  EXPECT_EQ(shared.ranks[39].threads, 1);
  EXPECT_THAT(shared.ranks[39].cores, ElementsAre(7));
  EXPECT_THAT(shared.notes, Contains(HasSubstr("share")));
  EXPECT_THAT(shared.warnings, IsEmpty());
  // --oversubscribe does not change a plan that is possible without it.
  EXPECT_EQ(cores_of(plan_host(machine, {.ranks = 9})),
            cores_of(plan_host(machine, {.ranks = 9, .oversubscribe = true})));
  // Unbound ranks that use devices may outnumber the cores.
  const auto devices = plan_host(machine, {.ranks = 33, .bind = false, .compute_on_cores = false});
  EXPECT_EQ(devices.ranks.size(), 33u);
  EXPECT_THAT(devices.warnings, IsEmpty());
  EXPECT_THAT(refusal(machine, {.ranks = 33, .compute_on_cores = false}),
              HasSubstr("--oversubscribe"));
  EXPECT_THAT(refusal(machine, {.ranks = -1}), HasSubstr("negative"));
}

// Fails if a plan with binding disabled binds ranks, or does not set their thread counts.
TEST_F(Plan, UnboundRanksHaveThreadsOnly) {
  const auto plan = plan_host(saved("one_node_8_cores"), {.ranks = 2, .bind = false});
  EXPECT_THAT(plan.ranks[1].cores, IsEmpty());
  EXPECT_EQ(plan.ranks[1].policy, MemoryPolicy::none);
  EXPECT_EQ(plan.ranks[1].threads, 4);
}

// Fails if all reserved cores come from one rank or one node, or a rank uses a reserved core.
TEST_F(Plan, ReservedCoresAreSpread) {
  const auto plan = plan_host(saved("sockets_of_56"), {.ranks = 2, .reserve_cores = 8});
  EXPECT_THAT(cores_of(plan), ElementsAre("0-51", "56-107"));
  EXPECT_EQ(topology::format_cpu_list(plan.reserved), "52-55,108-111");
  EXPECT_EQ(topology::format_cpu_list(plan.ranks[0].reserved), "52-55");
  const auto one = plan_host(saved("two_nodes_siblings_apart"), {.ranks = 1, .reserve_cores = 2});
  EXPECT_THAT(one.reserved, ElementsAre(3, 7));
  EXPECT_THAT(refusal(saved("one_node_8_cores"), {.ranks = 25, .reserve_cores = 2}),
              HasSubstr("2 reserved"));
  EXPECT_THAT(refusal(saved("one_node_8_cores"), {.reserve_cores = 8}),
              HasSubstr("--reserve_cores"));
}

// Fails if a rank is not bound to cores near its device. A rank whose device's node is unknown gets
// free cores.
TEST_F(Plan, RanksAreNextToTheirDevices) {
  PlanOptions options{.ranks = 2, .compute_on_cores = false, .device_nodes = {8, 0}};
  EXPECT_THAT(cores_of(plan_host(saved("nodes_0_and_8"), options)), ElementsAre("2-3", "0-1"));
  options.device_nodes = {8, 8};
  const auto same = plan_host(saved("nodes_0_and_8"), options);
  EXPECT_THAT(cores_of(same), ElementsAre("2", "3"));
  EXPECT_THAT(same.notes, Contains(HasSubstr("2 cores")));
  options.device_nodes = {-1, 0};
  EXPECT_THAT(cores_of(plan_host(saved("nodes_0_and_8"), options)), ElementsAre("2-3", "0-1"));
  // The node of a device is ignored if it is unknown, or contains only the device's memory.
  options.device_nodes = {30, 99};
  EXPECT_THAT(cores_of(plan_host(saved("power9_gpu"), options)),
              ElementsAre("0,4,8,12", "16,20,24,28"));
}

// Fails if a rank gets no core because a node has more devices than cores.
TEST_F(Plan, MoreDevicesThanCoresAtANode) {
  PlanOptions options{.ranks = 3, .compute_on_cores = false, .device_nodes = {0, 0, 0}};
  EXPECT_THAT(cores_of(plan_host(saved("nodes_0_and_8"), options)), ElementsAre("0", "1", "2-3"));
  options = {.ranks = 4, .compute_on_cores = false, .device_nodes = {0, 0, 0, 8}};
  const auto plan = plan_host(saved("nodes_0_and_8"), options);
  EXPECT_THAT(cores_of(plan), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(plan.notes, Contains(HasSubstr("too few")));
}

}  // namespace
}  // namespace anyaccel::launch
