#include "launch/start_timeout.h"

#include <gtest/gtest.h>

namespace anyaccel::launch {
namespace {

using std::chrono::milliseconds;

// Fails if late ranks are reported as missing, or missing ranks are not reported with their hosts.
TEST(StartTimeout, ReportsMissingRanks) {
  const auto begin = StartTimeout::Clock::now();
  StartTimeout watch({"a", "b", "c"}, milliseconds(100), begin);
  EXPECT_EQ(watch.milliseconds(begin), 100);
  EXPECT_EQ(watch.missing({}, begin + milliseconds(99)), "");
  EXPECT_EQ(watch.milliseconds(begin + milliseconds(99)), 1);
  EXPECT_EQ(watch.missing({1}, begin + milliseconds(101)), "");
  EXPECT_EQ(watch.milliseconds(begin + milliseconds(101)), 100);
  EXPECT_EQ(watch.missing({1}, begin + milliseconds(200)), "");
  EXPECT_EQ(watch.missing({1}, begin + milliseconds(201)), "rank 0 on a, rank 2 on c");
  // The ranks are reported only once.
  EXPECT_EQ(watch.missing({1}, begin + milliseconds(500)), "");
  EXPECT_EQ(watch.milliseconds(begin + milliseconds(500)), -1);
}

// Fails if the message about a large job lists every missing rank.
TEST(StartTimeout, ListsAtMostEightRanks) {
  const auto begin = StartTimeout::Clock::now();
  StartTimeout watch(std::vector<std::string>(10, "a"), milliseconds(1), begin);
  EXPECT_EQ(watch.missing({4}, begin), "");
  EXPECT_EQ(watch.missing({4}, begin + milliseconds(1)),
            "rank 0 on a, rank 1 on a, rank 2 on a, rank 3 on a, rank 5 on a, rank 6 on a, rank 7 "
            "on a, rank 8 on a "
            "and 1 more");
}

// Fails if a job is watched or stopped after all its ranks have started.
TEST(StartTimeout, EndsWhenAllRanksHaveStarted) {
  const auto begin = StartTimeout::Clock::now();
  StartTimeout watch({"a", "b"}, milliseconds(100), begin);
  EXPECT_EQ(watch.missing({0, 1}, begin + milliseconds(150)), "");
  EXPECT_EQ(watch.milliseconds(begin + milliseconds(150)), -1);
  EXPECT_EQ(watch.missing({0, 1}, begin + milliseconds(900)), "");
}

// Fails if the time limit cannot be disabled, or jobs without an MPI launcher are watched.
TEST(StartTimeout, WithoutALimit) {
  const auto begin = StartTimeout::Clock::now();
  for (auto watch :
       {StartTimeout({"a"}, milliseconds(0), begin), StartTimeout({}, milliseconds(100), begin)}) {
    EXPECT_EQ(watch.milliseconds(begin), -1);
    EXPECT_EQ(watch.missing({}, begin + milliseconds(1000000)), "");
  }
}

}  // namespace
}  // namespace anyaccel::launch
