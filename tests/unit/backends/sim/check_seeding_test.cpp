// Tests the note about programs that seed only the host.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/sim.h"
#include "backends/sim/generator.h"
#include "backends/sim/runtime.h"

namespace anyaccel::backends::sim::checking {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

at::TensorOptions on(int index = 0) { return at::TensorOptions().device(runtime().device(index)); }

struct SimCheckSeeding : testing::Test {
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "LibTorch's threads are not instrumented";
#endif
    anyaccel::sim::install({.check = "report"});
  }
};

// Fails if a program that seeds only the host is not noted, is noted twice, or counts as a problem.
TEST_F(SimCheckSeeding, SeedingOnlyTheHostIsNoted) {
  auto host = at::detail::getDefaultCPUGenerator();
  host.set_current_seed(5);
  auto values = at::empty({4}, on());
  values.uniform_();
  values.normal_();
  ASSERT_THAT(anyaccel::sim::notes(), SizeIs(1));
  const auto note = anyaccel::sim::notes()[0];
  EXPECT_EQ(note.kind, "unseeded_device");
  EXPECT_EQ(note.op, "aten::uniform_");
  EXPECT_THAT(note.what, HasSubstr("torch's host generator"));
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
}

// Fails if a correct use of generators is noted: no seed at all, a seed for every device, or a
// generator that the program created, which starts with a fixed seed.
TEST_F(SimCheckSeeding, OtherUsesOfGeneratorsAreNotNoted) {
  auto values = at::empty({4}, on());
  values.uniform_();
  auto host = at::detail::getDefaultCPUGenerator();
  host.set_current_seed(5);
  values.uniform_(0, 1, at::globalContext().getAcceleratorHooksInterface().getNewGenerator(0));
  auto first = default_generator(0), second = default_generator(1);
  first.set_current_seed(5);
  values.uniform_();
  second.set_state(second.get_state());
  at::empty({4}, on(1)).uniform_();
  EXPECT_THAT(anyaccel::sim::notes(), IsEmpty());
  anyaccel::sim::reset({.check = "report"});
  at::manual_seed(6);
  values.uniform_();
  at::empty({4}, on(1)).uniform_();
  EXPECT_THAT(anyaccel::sim::notes(), IsEmpty());
  anyaccel::sim::reset({.check = "report"});
  host.set_current_seed(7);
  values.uniform_();
  EXPECT_THAT(anyaccel::sim::notes(), SizeIs(1));
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
