#include "anyaccel/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace anyaccel {
namespace {

// Fails if the format of the message changes, or the label of an empty part is printed.
TEST(Error, MessageFormat) {
  const auto code = ErrorCode::invalid_argument;
  EXPECT_STREQ(Error(code, "f", {.what = "bad"}).what(), "[f] bad");
  EXPECT_STREQ(Error(code, "f", {.what = "bad", .got = "1", .want = "2", .hint = "see g"}).what(),
               "[f] bad; got 1, want 2; see g");
  EXPECT_STREQ(Error(code, "f", {.what = "bad", .want = "2"}).what(), "[f] bad; want 2");
  EXPECT_STREQ(Error(code, "f", {.what = "bad", .got = "1"}).what(), "[f] bad; got 1");
  EXPECT_EQ(Error(ErrorCode::io, "f", {.what = "bad"}).code(), ErrorCode::io);
}

// Fails if two error codes have the same name.
TEST(Error, EveryCodeHasAUniqueName) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i)
    EXPECT_TRUE(names.insert(to_string(static_cast<ErrorCode>(i))).second) << i;
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace anyaccel
