#include "backends/sim/options.h"

#include <gtest/gtest.h>

#include "anyaccel/error.h"
#include "backends/sim/faults.h"
#include "backends/sim/traits.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::backends::sim {
namespace {

using anyaccel::sim::options_from_environment;
using test::ScopedEnv;

// Fails if a variable is ignored, or its unit is misread.
TEST(SimOptions, AreReadFromTheEnvironment) {
  const ScopedEnv devices("SIM_DEVICES", "3"), memory("SIM_MEMORY", "1.5GiB"),
      dtypes("SIM_DTYPES", "float32,int64"), latency("SIM_LATENCY", "2ms"), seed("SIM_SEED", "7"),
      place("SIM_STANDS_IN_FOR", "hpu"), faults("SIM_FAULTS", "alloc@3");
  const auto options = options_from_environment();
  EXPECT_EQ(options.devices, 3);
  EXPECT_EQ(options.memory, 3LL << 29);
  EXPECT_EQ(options.dtypes, (std::vector<std::string>{"float32", "int64"}));
  EXPECT_EQ(options.latency_us, 2000);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.stands_in_for, "hpu");
  EXPECT_EQ(options.faults, "alloc@3");
  const auto bits = dtype_bits(options);
  EXPECT_TRUE((bits >> static_cast<int>(c10::kFloat)) & 1);
  EXPECT_FALSE((bits >> static_cast<int>(c10::kDouble)) & 1);
}

// Fails if an invalid value of a variable is accepted, or the error does not name the variable.
TEST(SimOptions, InvalidValuesAreErrors) {
  const std::pair<const char*, const char*> wrong[] = {
      {"SIM_DEVICES", "0"},       {"SIM_DEVICES", "17"},       {"SIM_DEVICES", "two"},
      {"SIM_MEMORY", "8 pounds"}, {"SIM_MEMORY", "-1GiB"},     {"SIM_MEMORY", "3"},
      {"SIM_DTYPES", "float33"},  {"SIM_LATENCY", "fast"},     {"SIM_LATENCY", "-1us"},
      {"SIM_SEED", "-1"},         {"SIM_FAULTS", "alloc"},     {"SIM_FAULTS", "alloc@0"},
      {"SIM_FAULTS", "slow@3"},   {"SIM_FAULTS", "lost=mm@3"}, {"SIM_FAULTS", "kernel%2"},
      {"SIM_FAULTS", "rust@1"}};
  for (const auto& [name, value] : wrong) {
    const ScopedEnv variable(name, value);
    EXPECT_ERROR(options_from_environment(), invalid_argument, name);
  }
}

// Fails if an option set as text is parsed differently from its environment variable, or an unknown
// variable name is ignored.
TEST(SimOptions, CanBeSetAsText) {
  anyaccel::sim::Options options;
  anyaccel::sim::set_option(options, "SIM_MEMORY", "2MiB");
  anyaccel::sim::set_option(options, "SIM_LATENCY", "3us");
  EXPECT_EQ(options.memory, 2 << 20);
  EXPECT_EQ(options.latency_us, 3);
  EXPECT_ERROR(anyaccel::sim::set_option(options, "SIM_MEMORRY", "2MiB"), invalid_argument,
               "SIM_MEMORRY");
  EXPECT_ERROR(anyaccel::sim::set_option(options, "SIM_SEED", "-1"), invalid_argument, "SIM_SEED");
  EXPECT_ERROR(anyaccel::sim::set_option(options, "SIM_DEVICES", "17"), invalid_argument,
               "1 to 16");
}

// Fails if a list of visible devices is not read like CUDA_VISIBLE_DEVICES, or if the probe counts
// other devices.
TEST(SimOptions, VisibleDevicesAreSelectedLikeCudas) {
  using Devices = std::vector<int>;
  const std::pair<const char*, Devices> cases[] = {
      {"0,1,2", {0, 1, 2}}, {"2,0", {2, 0}},
      {" 1 , 2 ", {1, 2}},  {"", {}},
      {"-1", {}},           {"1,-1,2", {1}},
      {"1,3,2", {1}},       {"1,1", {}},
      {"2gpus", {2}},       {"0x", {0}},
      {"none", {}},         {"GPU-00000000-0000-0000-0000-000000000002,0", {2, 0}},
      {"GPU-0", {}},  // ambiguous
      {"GPU-7", {}},        {"99999999999999999999", {}}};
  const ScopedEnv count("SIM_DEVICES", "3");
  for (const auto& [list, expected] : cases) {
    EXPECT_EQ(select_devices(list, 3), expected) << list;
    // The launcher uses the probe, and must count the devices that its processes will see.
    const ScopedEnv variable("SIM_VISIBLE_DEVICES", list);
    EXPECT_EQ(traits().probe().device_count, static_cast<int>(expected.size())) << list;
  }
}

// Fails if the variable of the replaced backend is ignored, if another backend's variable has an
// effect, or if an empty value selects all devices.
TEST(SimOptions, VisibleDevicesHaveTheVariableOfTheReplacedBackend) {
  const ScopedEnv devices("SIM_DEVICES", "3"), own("SIM_VISIBLE_DEVICES", "2,1"),
      other("ASCEND_RT_VISIBLE_DEVICES", "");
  auto options = options_from_environment();
  EXPECT_EQ(options.visible, (std::vector<int>{2, 1}));
  EXPECT_EQ(visible_text(options), "; SIM_VISIBLE_DEVICES selects 2 of 3 devices");
  const ScopedEnv place("SIM_STANDS_IN_FOR", "npu");
  options = options_from_environment();
  EXPECT_EQ(options.visible, std::vector<int>());
  EXPECT_EQ(visible_count(options), 0);
  EXPECT_ERROR(check(options), unavailable, "no simulated device is visible");
  options.visible = {0, 3};
  EXPECT_ERROR(check(options), invalid_argument, "invalid or repeated visible device");
  options.visible = {1, 1};
  EXPECT_ERROR(check(options), invalid_argument, "invalid or repeated visible device");
  options.visible = std::nullopt;
  EXPECT_EQ(visible_count(options), 3);
}

// Fails if a fault occurs on the wrong call, device or op, or with the wrong probability.
TEST(SimFaults, OccurAsSpecified) {
  EXPECT_EQ(parse_faults("oom@3").front().kind, FaultKind::alloc);
  FaultCounter first(parse_faults("alloc@3,kernel=mm@2,slow=5us@1+,lost@9/1"), 0, 0);
  EXPECT_FALSE(first.allocation());
  EXPECT_FALSE(first.allocation());
  EXPECT_TRUE(first.allocation());
  EXPECT_FALSE(first.allocation());
  EXPECT_FALSE(first.launch("aten::mm").fails);
  EXPECT_FALSE(first.launch("aten::add").fails);
  EXPECT_TRUE(first.launch("aten::mm").fails);
  EXPECT_EQ(first.launch("aten::add").delay_us, 5);
  FaultCounter second(parse_faults("lost@2/1"), 1, 0);
  EXPECT_FALSE(second.launch("a").lost);
  EXPECT_TRUE(second.launch("a").lost);
  EXPECT_FALSE(FaultCounter(parse_faults("lost@2/1"), 0, 0).any());

  const auto drawn = [](std::uint64_t seed) {
    FaultCounter counter(parse_faults("alloc%0.25"), 0, seed);
    std::vector<bool> fails;
    for (int i = 0; i < 1000; ++i) fails.push_back(counter.allocation());
    return fails;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  const auto fails = drawn(1);
  EXPECT_NEAR(std::count(fails.begin(), fails.end(), true), 250, 60);
}

}  // namespace
}  // namespace anyaccel::backends::sim
