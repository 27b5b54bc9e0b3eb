#include "anyaccel/llm/stop_condition.h"

#include <gtest/gtest.h>

namespace anyaccel::llm {
namespace {

// Fails if a default-constructed condition can stop a call. Ranks exchange stop requests only if
// stop_possible() returns true.
TEST(StopCondition, DefaultNeverStops) {
  EXPECT_FALSE(StopCondition().stop_possible());
  EXPECT_FALSE(StopCondition(nullptr).stop_requested());
}

// Fails if a stop request through the flag or the token is ignored.
TEST(StopCondition, FlagAndToken) {
  std::atomic<bool> flag{false};
  const StopCondition by_flag(&flag);
  EXPECT_TRUE(by_flag.stop_possible());
  EXPECT_FALSE(by_flag.stop_requested());
  flag = true;
  EXPECT_TRUE(by_flag.stop_requested());

  std::stop_source source;
  const StopCondition by_token(source.get_token());
  EXPECT_TRUE(by_token.stop_possible());
  EXPECT_FALSE(by_token.stop_requested());
  source.request_stop();
  EXPECT_TRUE(by_token.stop_requested());
}

}  // namespace
}  // namespace anyaccel::llm
