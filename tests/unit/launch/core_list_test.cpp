#include "launch/core_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"

namespace anyaccel::launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Fails if a list that DeepSpeed's launcher accepts is read differently.
TEST(CoreList, NumbersAndRanges) {
  EXPECT_THAT(parse_core_list("0-3,8,10-12"), ElementsAre(0, 1, 2, 3, 8, 10, 11, 12));
  EXPECT_EQ(parse_core_list("0-51,56-107").size(), 104u);
  EXPECT_THAT(parse_core_list("7"), ElementsAre(7));
}

// Fails if an unsorted list is rejected, as DeepSpeed does, or a CPU that is listed twice is
// returned twice.
TEST(CoreList, OrderAndDuplicatesDoNotMatter) {
  EXPECT_THAT(parse_core_list("8,2-4,0,3"), ElementsAre(0, 2, 3, 4, 8));
  EXPECT_THAT(parse_core_list(" 4 , 1-2 "), ElementsAre(1, 2, 4));
}

// Fails if a range with a stride does not start at its first number, or exceeds its last one.
TEST(CoreList, Strides) {
  EXPECT_THAT(parse_core_list("1-8:3"), ElementsAre(1, 4, 7));
  EXPECT_THAT(parse_core_list("0-31:2").size(), 16u);
  EXPECT_THAT(parse_core_list("0-4:2,1-5:2"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(parse_core_list("0-65535:65535"), ElementsAre(0, 65535));
}

// Fails if malformed text is accepted, or the error does not name the invalid part and the expected
// format.
TEST(CoreList, RejectsMalformedLists) {
  for (const char* const text :
       {"",    ",",       "1,",    ",1",          "1,,2",         "-1",    "1-",  "-",
        "3-1", "a",       "0-3:",  "0-3:0",       "0-3:-1",       "4:2",   "0x1", "1.5",
        "1 2", "0-3:2:2", "1-2-3", "99999999999", "0-4000000000", "65536", "+1"})
    EXPECT_THROW(parse_core_list(text), Error) << '"' << text << '"';
  try {
    parse_core_list("0-3,9-5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(
        error.what(),
        AllOf(HasSubstr("[--bind_core_list]"), HasSubstr("\"9-5\" ends before it begins"),
              HasSubstr("got \"0-3,9-5\""), HasSubstr("want "), HasSubstr("anyaccel topology")));
  }
}

}  // namespace
}  // namespace anyaccel::launch
