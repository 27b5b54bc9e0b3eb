#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "anyaccel/error.h"
#include "topology/topology.h"
#include "unit/support/saved_machine.h"

namespace anyaccel::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using SavedMachine = test::SavedMachineTest;

std::vector<int> device_nodes(const Machine& machine) {
  std::vector<int> numbers;
  for (const int i : numa_nodes_with_cores(machine))
    numbers.push_back(machine.nodes[static_cast<std::size_t>(i)].os_index);
  return numbers;
}

// Fails if hardware threads count as cores, with either numbering of the threads of a core.
TEST_F(SavedMachine, CoresAndSiblings) {
  const auto adjacent = saved("two_nodes_siblings_adjacent");
  ASSERT_EQ(adjacent.cores.size(), 8u);
  EXPECT_THAT(adjacent.cores[1].cpus, ElementsAre(2, 3));
  EXPECT_EQ(format_cpu_list(adjacent.nodes[1].cpus), "8-15");
  const auto apart = saved("two_nodes_siblings_apart");
  ASSERT_EQ(apart.cores.size(), 8u);
  EXPECT_THAT(apart.cores[1].cpus, ElementsAre(1, 9));
  EXPECT_EQ(format_cpu_list(apart.nodes[0].cpus), "0-3,8-11");
  EXPECT_THAT(device_nodes(apart), ElementsAre(0, 1));
  EXPECT_EQ(package_count(apart), 2);
  EXPECT_EQ(apart.nodes[1].memory, 64'000'000'000);
  EXPECT_EQ(cores_of_node(apart, 1).size(), 4u);
}

// Fails if a processor has no name on ARM, where hwloc reports only numbers.
TEST_F(SavedMachine, ArmProcessors) {
  EXPECT_EQ(saved("arm_four_nodes").cpu_model, "TaiShan-v110");
  EXPECT_EQ(saved("arm_four_nodes").cpu_vendor, "HiSilicon");
  EXPECT_EQ(saved("grace_hopper").cpu_model, "Neoverse-V2");
}

// Fails if node numbers are used as indices, so that node 8 is lost.
TEST_F(SavedMachine, NodeNumbersWithGaps) {
  const auto machine = saved("nodes_0_and_8");
  EXPECT_THAT(device_nodes(machine), ElementsAre(0, 8));
  EXPECT_EQ(machine.cores[2].node, 1);
  EXPECT_EQ(format_cpu_list(machine.nodes[1].cpus), "2-3");
}

// Fails if every node of a package with sub-NUMA clustering gets all CPUs of the package.
TEST_F(SavedMachine, SubNumaClusters) {
  const auto machine = saved("clusters_snc2");
  EXPECT_THAT(device_nodes(machine), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(format_cpu_list(machine.nodes[1].cpus), "6-11");
  EXPECT_EQ(cores_of_node(machine, 3).size(), 3u);
  const auto flat = saved("xeon_max_flat_snc4");
  ASSERT_EQ(flat.nodes.size(), 16u);
  EXPECT_EQ(flat.nodes[9].kind, MemoryKind::hbm);
  EXPECT_EQ(flat.nodes[9].near_cpus, flat.nodes[1].cpus);
}

// Fails if cores have no node when cpuset.mems forbids their node's memory, or the forbidden memory
// is counted.
TEST_F(SavedMachine, NodeWithForbiddenMemory) {
  const auto machine = saved("memory_of_node_0_only");
  EXPECT_THAT(device_nodes(machine), ElementsAre(0, 1));
  EXPECT_EQ(machine.nodes[1].memory, 0);
  EXPECT_EQ(format_cpu_list(machine.nodes[1].cpus), "4-7");
}

// Fails if HBM in flat mode counts as a device, or the cores are assigned to the HBM's node.
TEST_F(SavedMachine, HbmIsNotADevice) {
  const auto machine = saved("hbm_flat");
  EXPECT_THAT(device_nodes(machine), ElementsAre(0, 3));
  EXPECT_EQ(machine.nodes[2].kind, MemoryKind::hbm);
  EXPECT_TRUE(machine.nodes[2].cpus.empty());
  EXPECT_EQ(format_cpu_list(machine.nodes[2].near_cpus), "2-3");
}

// Fails if HBM that is not labeled as HBM is not recognized by the bandwidth that the firmware
// reports.
TEST_F(SavedMachine, HbmIsRecognizedByItsBandwidth) {
  const auto machine = saved("hbm_by_bandwidth");
  EXPECT_THAT(device_nodes(machine), ElementsAre(0, 2));
  EXPECT_EQ(machine.nodes[1].kind, MemoryKind::hbm);
  EXPECT_EQ(machine.nodes[3].kind, MemoryKind::hbm);
}

// Fails if nodes without CPUs count as HBM merely because there are as many of them as nodes with
// CPUs.
TEST_F(SavedMachine, UnknownMemoryIsNotHbm) {
  const auto machine = saved("unknown_memory");
  EXPECT_THAT(device_nodes(machine), ElementsAre(0, 2));
  EXPECT_EQ(machine.nodes[1].kind, MemoryKind::other);
}

// Fails if CXL memory, which is close to all cores, gets the cores of other nodes.
TEST_F(SavedMachine, CxlIsNotADevice) {
  const auto machine = saved("cxl");
  EXPECT_THAT(device_nodes(machine), ElementsAre(0, 1));
  EXPECT_EQ(machine.nodes[2].kind, MemoryKind::cxl);
  EXPECT_EQ(machine.nodes[2].memory, 256'000'000'000);
}

// Fails if the set of allowed CPUs that was saved with the machine is ignored.
TEST_F(SavedMachine, HonorsASavedCpuset) {
  const auto machine = saved("container_cpuset");
  EXPECT_EQ(format_cpu_list(machine.cpus()), "8-11");
  EXPECT_THAT(device_nodes(machine), ElementsAre(1));
}

// Fails if nodes and cores that a restricted process may not use are counted.
TEST_F(SavedMachine, RestrictedDropsCoresAndDevices) {
  const auto whole = saved("two_nodes_siblings_apart");
  const auto part = restrict_to(whole, parse_cpu_list("1,5-7,13,99"));
  EXPECT_EQ(format_cpu_list(part.cpus()), "1,5-7,13");
  ASSERT_EQ(part.cores.size(), 4u);
  EXPECT_THAT(part.cores[1].cpus, ElementsAre(5, 13));
  EXPECT_THAT(device_nodes(part), ElementsAre(0, 1));
  EXPECT_THAT(device_nodes(restrict_to(whole, {5})), ElementsAre(1));
  EXPECT_EQ(part.nodes.size(), 2u);
  EXPECT_TRUE(numa_nodes_with_cores(restrict_to(whole, {99})).empty());
}

// Fails if all nodes of a fake NUMA layout count as devices although they share their cores.
TEST(AssignCores, SharedCoresBelongToOneNode) {
  Machine machine;
  machine.cores = {{.package = 0, .cpus = {0}}, {.package = 0, .cpus = {1}}};
  for (int i = 0; i < 2; ++i) {
    NumaNode node;
    node.os_index = i;
    node.near_cpus = {0, 1};
    machine.nodes.push_back(node);
  }
  assign_cores(machine);
  EXPECT_THAT(device_nodes(machine), ElementsAre(0));
  EXPECT_EQ(machine.cores[1].node, 0);
}

// Fails if a machine whose only memory is HBM has no device.
TEST(AssignCores, HbmAloneIsADevice) {
  Machine machine;
  machine.cores = {{.package = 0, .cpus = {0}}};
  NumaNode node;
  node.kind = MemoryKind::hbm;
  node.near_cpus = {0};
  machine.nodes.push_back(node);
  assign_cores(machine);
  EXPECT_EQ(device_nodes(machine).size(), 1u);
}

// Fails if a missing or invalid file is read as an empty machine.
TEST_F(SavedMachine, RejectsInvalidFiles) {
  const auto path = std::filesystem::temp_directory_path() / "anyaccel_not_a_machine.xml";
  std::ofstream(path) << "<html></html>";
  try {
    read_machine(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  }
  std::filesystem::remove(path);
  EXPECT_THROW(saved("there_is_none"), Error);
}

// Fails if read_machine() disagrees with the kernel about this process's CPUs, or a core has no
// node.
TEST(LiveMachine, HasTheAllowedCpus) {
  const auto machine = read_machine();
  EXPECT_EQ(machine.cpus(), allowed_cpus());
  EXPECT_FALSE(numa_nodes_with_cores(machine).empty());
  std::int64_t memory = 0;
  for (const auto& node : machine.nodes) memory += node.memory;
  EXPECT_GT(memory, 1 << 20);
  for (const auto& core : machine.cores) EXPECT_GE(core.node, 0);
}

// Fails if the thread's affinity is ignored.
TEST(LiveMachine, FollowsAffinity) {
  const int cpu = allowed_cpus().back();
  CpuList seen;
  // Runs in a separate thread, because this thread would keep the changed affinity.
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    seen = read_machine().cpus();
  }).join();
  EXPECT_THAT(seen, ElementsAre(cpu));
}

// Fails if reading the machine changes the environment, which child processes inherit.
TEST(LiveMachine, DoesNotChangeTheEnvironment) {
  read_machine();
  EXPECT_EQ(::getenv("HWLOC_PLUGINS_PATH"), nullptr);
}

// Fails if hwloc loads plugins or scans I/O devices, which is slow. The `anyaccel` program must
// finish within 20 ms.
TEST(LiveMachine, IsReadFast) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    read_machine();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                  .count());
  }
  RecordProperty("milliseconds", std::to_string(best));
  EXPECT_LT(best, 10.0);
}

}  // namespace
}  // namespace anyaccel::topology
