// Tests the traits of each backend.
#include "anyaccel/sdk/traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/built_traits.h"

namespace anyaccel {
namespace {

using Texts = std::vector<std::string>;

const sdk::Traits* find(const std::string& name) {
  for (const auto* traits : built_traits())
    if (traits->name == name) return traits;
  return nullptr;
}

struct Row {
  const char* name;
  const char* class_name;
  const char* device_type;
  const char* comm;
  const char* compile;
  Texts visible;
  Texts exported;
};

class TraitsTable : public testing::TestWithParam<Row> {};

// Fails if a name, variable or library that users rely on differs from the one in DeepSpeed or,
// where DeepSpeed is wrong, from the vendor's.
TEST_P(TraitsTable, MatchesDeepSpeed) {
  const auto& row = GetParam();
  const auto* traits = find(row.name);
  if (traits == nullptr) GTEST_SKIP() << row.name << " is not in this build";
  EXPECT_EQ(traits->class_name, row.class_name);
  EXPECT_EQ(traits->device_type, row.device_type);
  EXPECT_EQ(traits->communication_backend, row.comm);
  EXPECT_EQ(traits->compile_backend, row.compile);
  EXPECT_THAT(traits->compile_backends, testing::Contains(row.compile));
  EXPECT_EQ(traits->visible_devices_envs, row.visible);
  EXPECT_EQ(traits->export_envs, row.exported);
  EXPECT_THAT(traits->op_builder_dir, testing::StartsWith("deepspeed.ops.op_builder"));
}

INSTANTIATE_TEST_SUITE_P(
    AllVendors, TraitsTable,
    testing::Values(
        Row{"cuda",
            "CUDA_Accelerator",
            "cuda",
            "nccl",
            "inductor",
            {"CUDA_VISIBLE_DEVICES"},
            {"NCCL"}},
        Row{"hpu", "HPU_Accelerator", "hpu", "hccl", "hpu_backend", {"HABANA_VISIBLE_MODULES"}, {}},
        Row{"xpu", "XPU_Accelerator", "xpu", "xccl", "inductor", {"ZE_AFFINITY_MASK"}, {}},
        Row{"npu",
            "NPU_Accelerator",
            "npu",
            "hccl",
            "inductor",
            {"ASCEND_RT_VISIBLE_DEVICES"},
            {"ASCEND", "HCCL", "LD_LIBRARY", "PATH"}},
        Row{"mlu",
            "MLU_Accelerator",
            "mlu",
            "cncl",
            "inductor",
            {"MLU_VISIBLE_DEVICES"},
            {"NEUWARE_HOME", "CNCL", "LD_LIBRARY", "PATH"}},
        Row{"sdaa",
            "SDAA_Accelerator",
            "sdaa",
            "tccl",
            "inductor",
            {"SDAA_VISIBLE_DEVICES"},
            {"NCCL", "LD_LIBRARY", "PATH"}},
        Row{"supa",
            "SUPA_Accelerator",
            "supa",
            "bccl",
            "inductor",
            {"SUPA_VISIBLE_DEVICES"},
            {"BCCL", "BIREN", "SUPA", "LD_LIBRARY", "PATH"}},
        Row{"klxpu",
            "KLXPU_Accelerator",
            "cuda",
            "nccl",
            "inductor",
            {"CUDA_VISIBLE_DEVICES"},
            {"BKCL", "XPU", "XMLIR", "LD_LIBRARY", "PATH"}},
        Row{"mps", "MPS_Accelerator", "mps", "staged", "inductor", {}, {}}),
    [](const auto& row) { return std::string(row.param.name); });

// Fails if a backend that imitates another backend is probed after it. It would then never be
// detected.
TEST(TraitsOrder, ImitatorsAreProbedFirst) {
  const auto* cuda = find("cuda");
  ASSERT_NE(cuda, nullptr);
  for (const char* name : {"supa", "klxpu"}) {
    if (const auto* imitator = find(name)) {
      EXPECT_GT(imitator->priority, cuda->priority) << name;
    }
  }
  // Intel graphics must not take precedence on a machine with another accelerator.
  if (const auto* xpu = find("xpu")) {
    EXPECT_LT(xpu->priority, cuda->priority);
  }
}

// Fails if two backends have the same name or the same priority.
TEST(TraitsOrder, NamesAndPrioritiesAreUnique) {
  std::set<std::string> names;
  std::set<int> priorities;
  for (const auto* traits : built_traits()) {
    EXPECT_TRUE(names.insert(traits->name).second) << traits->name;
    EXPECT_TRUE(priorities.insert(traits->priority).second) << traits->name;
  }
}

// Fails if a flag that Gaudi programs rely on changes, or a variable in start_environment has no
// reason.
TEST(TraitsHpu, FlagsAndEnvironment) {
  const auto* hpu = find("hpu");
  if (hpu == nullptr) GTEST_SKIP();
  EXPECT_FALSE(hpu->synchronized);
  EXPECT_TRUE(hpu->resolves_data_dependency);
  EXPECT_TRUE(hpu->handles_memory_backpressure);
  EXPECT_FALSE(hpu->indexed_names);
  std::set<std::string> set;
  for (const auto& setting : hpu->start_environment) {
    EXPECT_EQ(setting.value, "0");
    EXPECT_FALSE(setting.reason.empty());
    set.insert(setting.name);
  }
  EXPECT_THAT(set, testing::UnorderedElementsAre("PT_HPU_LAZY_ACC_PAR_MODE",
                                                 "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"));
}

// Fails if Apple GPUs report fp64 support.
TEST(TraitsMps, LacksFp64) {
  const auto* mps = find("mps");
  if (mps == nullptr) GTEST_SKIP();
  EXPECT_FALSE(mps->fp64);
}

// Fails if a probe finds devices on a machine without any, or gives no reason.
TEST(TraitsProbe, ReasonWithoutDevices) {
  setenv("ANYACCEL_DEVICE_ROOT", "/nonexistent", 1);
  setenv("ANYACCEL_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
  for (const auto* traits : built_traits()) {
    // Host and simulated devices exist on every machine.
    if (traits->probe == nullptr || traits->device_type == "cpu" || traits->device_type == "sim")
      continue;
    const auto probe = traits->probe();
    EXPECT_EQ(probe.device_count, 0) << traits->name;
    EXPECT_FALSE(probe.reason.empty()) << traits->name;
  }
}

}  // namespace
}  // namespace anyaccel
