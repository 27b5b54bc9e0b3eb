#include "base/trimmed.h"

#include <gtest/gtest.h>

namespace anyaccel {
namespace {

// Fails if leading or trailing blanks are kept, or blanks between words are removed.
TEST(Trimmed, RemovesBlanksAtBothEnds) {
  EXPECT_EQ(trimmed(" \t\r\n\v\fa \t b\f\v\n\r\t "), "a \t b");
  EXPECT_EQ(trimmed("a"), "a");
}

// Fails if text that consists only of blanks does not become empty, or is read beyond its end.
TEST(Trimmed, OfBlanksIsEmpty) {
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed(" \n"), "");
}

}  // namespace
}  // namespace anyaccel
