#include "backends/cpu/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "unit/support/saved_machine.h"

namespace anyaccel::backends::cpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using CpuDevices = test::SavedMachineTest;

// Fails if hardware threads or memory-only nodes count as devices, or a node's memory excludes its
// HBM.
TEST_F(CpuDevices, AreNodesWithCores) {
  const auto devices = cpu_devices(saved("hbm_flat"), std::nullopt);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].numa_node, 3);
  EXPECT_EQ(devices[1].cores, 2);
  EXPECT_THAT(devices[1].memory_nodes, ElementsAre(2, 3));
  EXPECT_EQ(cpu_devices(saved("nodes_0_and_8"), std::nullopt)[1].numa_node, 8);
}

// Fails if a single device on a machine with two nodes has only the memory of the first node.
TEST_F(CpuDevices, OneDeviceCoversAllNodes) {
  const auto one = cpu_devices(saved("two_nodes_siblings_apart"), 1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].cores, 8);
  EXPECT_TRUE(one[0].memory_nodes.empty());
}

// Fails if devices are not distributed evenly when there are more devices than nodes.
TEST_F(CpuDevices, SeveralDevicesShareANode) {
  const auto four = cpu_devices(saved("two_nodes_siblings_apart"), 4);
  ASSERT_EQ(four.size(), 4u);
  EXPECT_EQ(four[1].numa_node, 0);
  EXPECT_EQ(four[2].numa_node, 1);
  EXPECT_THAT(four[3].memory_nodes, ElementsAre(1));
  const auto three = cpu_devices(saved("two_nodes_siblings_apart"), 3);
  EXPECT_EQ(three[2].numa_node, 1);
}

// Fails if a process that is bound to one node sees another node's cores.
TEST_F(CpuDevices, StayWithinTheAllowedCpus) {
  const auto devices =
      cpu_devices(topology::restrict_to(saved("two_nodes_siblings_apart"), {4, 5}), 2);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].numa_node, 1);
  EXPECT_EQ(devices[1].cores, 2);
}

// Fails if there is no device when the topology reports no cores.
TEST_F(CpuDevices, AtLeastOne) { EXPECT_EQ(cpu_devices({}, std::nullopt).size(), 1u); }

// Fails if LOCAL_SIZE is not read, an invalid value has an effect, or invalid values do not log
// exactly one warning.
TEST(LocalSize, IsRead) {
  ::setenv("LOCAL_SIZE", "6", 1);
  EXPECT_EQ(local_size_from_environment(), 6);
  EXPECT_EQ(probe().device_count, 6);
  EXPECT_THAT(probe().reason, HasSubstr("LOCAL_SIZE"));
  ::setenv("LOCAL_SIZE", "0", 1);
  EXPECT_EQ(local_size_from_environment(), std::nullopt);
  testing::internal::CaptureStderr();
  for (const char* bad : {"-2", "four", "3x", "99999999999999999999"}) {
    ::setenv("LOCAL_SIZE", bad, 1);
    EXPECT_EQ(local_size_from_environment(), std::nullopt) << bad;
  }
  const auto log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("-2"));
  EXPECT_EQ(log.find("four"), std::string::npos) << "the warning must be logged only once";
  ::unsetenv("LOCAL_SIZE");
  EXPECT_GE(probe().device_count, 1);
  EXPECT_THAT(probe().reason, HasSubstr("NUMA"));
}

}  // namespace
}  // namespace anyaccel::backends::cpu
