#include "topology/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "topology/processor_limit.h"
#include "unit/support/saved_machine.h"

namespace anyaccel::topology {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;

constexpr std::int64_t kMiB = 1 << 20;

/// A fake /proc and /sys.
class FakeSystem : public testing::Test {
 protected:
  void SetUp() override {
    // Each test needs a separate root folder, because the control groups of a root are cached.
    static int count = 0;
    root = fs::temp_directory_path() /
           ("anyaccel_memory_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    fs::remove_all(root);
    put("proc/meminfo",
        "MemTotal:       16384 kB\nMemFree:         100 kB\nMemAvailable:    8192 kB\n");
  }
  void TearDown() override { fs::remove_all(root); }
  void put(const std::string& path, const std::string& content) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << content;
  }
  void put_v2(const std::string& own, const std::string& mount_root = "/") {
    put("proc/self/cgroup", "0::" + own + "\n");
    put("proc/self/mountinfo",
        "22 1 0:20 / / rw - ext4 /dev/x rw\n31 22 0:28 " + mount_root +
            " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void group_v2(const std::string& folder, const std::string& max, std::int64_t current,
                std::int64_t inactive = 0) {
    put(folder + "/memory.max", max + "\n");
    put(folder + "/memory.current", std::to_string(current) + "\n");
    put(folder + "/memory.stat",
        "anon 5\nfile 7\ninactive_file " + std::to_string(inactive) + "\n");
  }
  void group_v1(const std::string& folder, const std::string& limit, std::int64_t usage,
                int hierarchy = 1) {
    put(folder + "/memory.limit_in_bytes", limit + "\n");
    put(folder + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
    put(folder + "/memory.stat", "inactive_file 999\ntotal_inactive_file 1048576\n");
    put(folder + "/memory.use_hierarchy", std::to_string(hierarchy) + "\n");
  }
  fs::path root;
};

// Fails if values in kB are not converted to bytes, or MemFree is used instead of MemAvailable.
TEST_F(FakeSystem, Host) {
  const auto amount = usable_memory({}, root);
  EXPECT_EQ(amount.total, 16 * kMiB);
  EXPECT_EQ(amount.available, 8 * kMiB);
  EXPECT_EQ(control_group_memory(root).total, MemoryAmount::unlimited);
}

// Fails if the control group's limit is ignored, or reclaimable page cache counts as used.
TEST_F(FakeSystem, GroupV2) {
  put_v2("/job");
  group_v2("sys/fs/cgroup/job", "4194304", 3 * kMiB, kMiB);
  const auto amount = usable_memory({}, root);
  EXPECT_EQ(amount.total, 4 * kMiB);
  EXPECT_EQ(amount.available, 2 * kMiB);
  EXPECT_THAT(amount.total_from, EndsWith("sys/fs/cgroup/job/memory.max"));
}

// Fails if only the innermost group is read. Kubernetes and systemd set the limit on an ancestor.
TEST_F(FakeSystem, AncestorOfAGroupV2) {
  put_v2("/slice/job/inner");
  group_v2("sys/fs/cgroup/slice", "6291456", 5 * kMiB);
  group_v2("sys/fs/cgroup/slice/job", "8388608", kMiB);
  group_v2("sys/fs/cgroup/slice/job/inner", "max", 0);
  const auto amount = usable_memory({}, root);
  EXPECT_EQ(amount.total, 6 * kMiB);
  EXPECT_EQ(amount.available, kMiB);
}

// Fails if a cached control group or limit is used after it has changed.
TEST_F(FakeSystem, MovedToAnotherGroup) {
  put_v2("/job");
  group_v2("sys/fs/cgroup/job", "4194304", 0);
  group_v2("sys/fs/cgroup/other", "2097152", 0);
  EXPECT_EQ(usable_memory({}, root).total, 4 * kMiB);
  put_v2("/other");
  EXPECT_EQ(usable_memory({}, root).total, 2 * kMiB);
  put_v2("/job");
  group_v2("sys/fs/cgroup/job", "3145728", 0);
  EXPECT_EQ(usable_memory({}, root).total, 3 * kMiB);
}

// Fails if a host path, which a container without a cgroup namespace sees, is looked up under the
// container's cgroup mount.
TEST_F(FakeSystem, ContainerWithTheHostsPath) {
  put_v2("/docker/abc", "/docker/abc");
  group_v2("sys/fs/cgroup", "2097152", 0);
  EXPECT_EQ(usable_memory({}, root).total, 2 * kMiB);
  put_v2("/../../elsewhere", "/");
  EXPECT_EQ(usable_memory({}, root).total, 2 * kMiB);
}

// Fails if version 1 control groups are not read, or the value that means "no limit" counts as a
// limit.
TEST_F(FakeSystem, GroupV1) {
  put("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/job/inner\n0::/\n");
  put("proc/self/mountinfo",
      "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  group_v1("sys/fs/cgroup/memory", "9223372036854771712", 0);
  group_v1("sys/fs/cgroup/memory/job", "5242880", 4 * kMiB);
  group_v1("sys/fs/cgroup/memory/job/inner", "18446744073709551615", 0);
  auto amount = usable_memory({}, root);
  EXPECT_EQ(amount.total, 5 * kMiB);
  EXPECT_EQ(amount.available, 2 * kMiB);
  // Without hierarchical accounting, a parent's limit does not apply to its children.
  group_v1("sys/fs/cgroup/memory/job", "5242880", 4 * kMiB, 0);
  EXPECT_EQ(usable_memory({}, root).total, 16 * kMiB);
}

// Fails if a CPU quota of the control group or an ancestor is ignored, for control groups of
// version 1 or version 2.
TEST_F(FakeSystem, CpuQuota) {
  EXPECT_EQ(control_group_processors(root), std::numeric_limits<double>::infinity());
  put_v2("/slice/job");
  put("sys/fs/cgroup/slice/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/slice/job/cpu.max", "350000 100000\n");
  EXPECT_EQ(control_group_processors(root), 3.5);
  put("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(control_group_processors(root), 1.5);
  put("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/job/inner\n");
  put("proc/self/mountinfo",
      "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n");
  put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(control_group_processors(root), 0.5);
}

// Fails if a mount point with a space in its path is not found.
TEST_F(FakeSystem, EscapedMountPoint) {
  put("proc/self/cgroup", "0::/\n");
  put("proc/self/mountinfo", "31 22 0:28 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  group_v2("my groups", "3145728", 0);
  EXPECT_EQ(usable_memory({}, root).total, 3 * kMiB);
}

// Fails if the available memory is negative when a control group uses more than its limit.
TEST_F(FakeSystem, NeverNegative) {
  put_v2("/");
  group_v2("sys/fs/cgroup", "1048576", 9 * kMiB);
  EXPECT_EQ(usable_memory({}, root).available, 0);
}

// Fails if the memory of the host is reported as that of a node.
TEST_F(FakeSystem, Nodes) {
  put("sys/devices/system/node/node0/meminfo",
      "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 1024 kB\nNode 0 Active(file): 512 kB\n"
      "Node 0 Inactive(file): 512 kB\nNode 0 SReclaimable: 1024 kB\n");
  put("sys/devices/system/node/node8/meminfo",
      "Node 8 MemTotal: 2048 kB\nNode 8 MemFree: 1024 kB\n");
  EXPECT_EQ(usable_memory({0}, root).total, 4 * kMiB);
  EXPECT_EQ(usable_memory({0}, root).available, 3 * kMiB);
  EXPECT_EQ(usable_memory({0, 8}, root).total, 6 * kMiB);
  EXPECT_EQ(usable_memory({0, 8}, root).available, 4 * kMiB);
  // For a node that the kernel does not list, the function returns the memory of the host.
  EXPECT_EQ(usable_memory({5}, root).total, 16 * kMiB);
}

using MemoryNodes = test::SavedMachineTest;

// Fails if HBM is not assigned to the nearest node with cores, or CXL memory is assigned to a node.
TEST_F(MemoryNodes, HbmServesItsNode) {
  EXPECT_THAT(memory_nodes(saved("hbm_flat"), 0), ElementsAre(0, 1));
  EXPECT_THAT(memory_nodes(saved("hbm_flat"), 3), ElementsAre(2, 3));
  EXPECT_THAT(memory_nodes(saved("cxl"), 0), ElementsAre(0));
}

// Fails if this machine's memory cannot be read.
TEST(LiveMemory, IsPlausible) {
  const auto amount = usable_memory();
  EXPECT_GT(amount.available, 16 * kMiB);
  EXPECT_LE(amount.available, amount.total);
  EXPECT_LT(amount.total, std::int64_t{1} << 46);
}

}  // namespace
}  // namespace anyaccel::topology
