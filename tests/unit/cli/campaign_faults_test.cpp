#include "cli/front/campaign_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace anyaccel::cli {
namespace {

std::vector<std::string> take(FaultPlan& plan, std::size_t most) {
  std::vector<std::string> faults;
  while (faults.size() < most) {
    const auto fault = plan.next();
    if (!fault) break;
    faults.push_back(fault->faults);
  }
  return faults;
}

// Fails if an operation is skipped or repeated, or the plan does not start with the first and last
// operations.
TEST(FaultPlan, CoversEveryOperationOnce) {
  FaultPlan plan({"alloc"}, {.allocations = 50, .launches = 7}, 1);
  const auto faults = take(plan, 1000);
  EXPECT_EQ(faults.size(), 50U);
  EXPECT_EQ(std::set<std::string>(faults.begin(), faults.end()).size(), 50U);
  EXPECT_EQ(faults[0], "alloc@1");
  EXPECT_EQ(faults[1], "alloc@50");
}

// Fails if the kinds of faults do not alternate, or launches are counted as allocations or vice
// versa.
TEST(FaultPlan, TakesKindsInTurn) {
  FaultPlan plan({"alloc", "lost", "slow"}, {.allocations = 1, .launches = 2}, 1);
  EXPECT_THAT(take(plan, 10),
              testing::ElementsAre("alloc@1", "lost@1", "slow=50ms@1", "lost@2", "slow=50ms@2"));
}

// Fails if the same seed gives different orders, or different seeds give the same order.
TEST(FaultPlan, DependsOnlyOnTheSeed) {
  const auto order = [](std::uint64_t seed) {
    FaultPlan plan({"kernel"}, {.launches = 100}, seed);
    return take(plan, 100);
  };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
}

// Fails if "reorder" runs out of faults, or uses a seed twice.
TEST(FaultPlan, ReordersWithEverNewSeeds) {
  FaultPlan plan({"reorder"}, {.launches = 1}, 9);
  for (std::uint64_t seed = 9; seed < 20; ++seed) {
    const auto fault = plan.next();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->faults, "slow=300us%0.2");
    EXPECT_EQ(fault->seed, seed);
  }
}

// Fails if a program without operations gets faults, or the plan never ends.
TEST(FaultPlan, IsEmptyWithoutOperations) {
  FaultPlan plan(campaign_kinds(), {}, 0);
  EXPECT_FALSE(plan.next());
}

}  // namespace
}  // namespace anyaccel::cli
