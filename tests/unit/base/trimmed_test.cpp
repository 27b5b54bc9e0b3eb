#include "base/trimmed.h"

#include <gtest/gtest.h>

namespace anyaccel {
namespace {

// Fails if a blank stays at either end, or one between words is removed.
TEST(Trimmed, RemovesBlanksAtBothEnds) {
  EXPECT_EQ(trimmed(" \t\r\n\v\fa \t b\f\v\n\r\t "), "a \t b");
  EXPECT_EQ(trimmed("a"), "a");
}

// Fails if text of blanks alone is returned, or read beyond its end.
TEST(Trimmed, OfBlanksIsEmpty) {
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed(" \n"), "");
}

}  // namespace
}  // namespace anyaccel
