#include "llm/support/host_random.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <set>

#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

// Fails if random draws of any kind do not continue from a saved state.
TEST(HostRandom, StateContinues) {
  HostRandom first(7);
  at::Tensor values = at::empty({5});
  first.fill_normal(values, 0, 1);
  const at::Tensor state = first.state();
  const std::tuple<double, std::int64_t, at::Tensor> next{first.uniform(), first.below(1000),
                                                          first.dropout_mask({4, 4}, 0.5)};
  HostRandom second(8);
  second.set_state(state);
  EXPECT_EQ(second.uniform(), std::get<0>(next));
  EXPECT_EQ(second.below(1000), std::get<1>(next));
  EXPECT_TRUE(at::equal(second.dropout_mask({4, 4}, 0.5), std::get<2>(next)));
  EXPECT_ERROR(second.set_state(at::empty({3}, at::TensorOptions().dtype(c10::kByte))), corrupt,
               "state");
}

// Fails if numbers are out of range, or some never occur.
TEST(HostRandom, Ranges) {
  HostRandom random(1);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 300; ++i) {
    const double uniform = random.uniform();
    EXPECT_GE(uniform, 0.0);
    EXPECT_LT(uniform, 1.0);
    seen.insert(random.below(7));
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

// Fails if dropout changes the expected value.
TEST(HostRandom, DropoutMaskKeepsTheMean) {
  HostRandom random(1);
  const at::Tensor mask = random.dropout_mask({200, 200}, 0.25);
  EXPECT_NEAR(mask.mean().item<double>(), 1.0, 0.02);
  EXPECT_NEAR(mask.eq(0).to(c10::kFloat).mean().item<double>(), 0.25, 0.02);
}

}  // namespace
}  // namespace anyaccel::llm
