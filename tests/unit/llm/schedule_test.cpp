#include "llm/train/schedule.h"

#include <gtest/gtest.h>

namespace anyaccel::llm {
namespace {

// Fails if the learning rate does not rise to its peak during warm-up, does not decay until the
// end, or is not positive.
TEST(Schedule, RisesAndFalls) {
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.1, 0.0), 0.02);
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.1, 0.05), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.1, 0.1), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.1, 0.55), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.1, 1.0), 0.02);
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.1, 7.0), 0.02);
  EXPECT_DOUBLE_EQ(learning_rate(2.0, 0.0, 0.0), 2.0);
}

}  // namespace
}  // namespace anyaccel::llm
