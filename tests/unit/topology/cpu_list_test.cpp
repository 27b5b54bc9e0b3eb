#include "topology/cpu_list.h"

#include <gtest/gtest.h>

#include "anyaccel/error.h"

namespace anyaccel::topology {
namespace {

// Fails if ranges or single numbers, including unsorted or duplicate ones, are misread.
TEST(CpuList, Reads) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (CpuList{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("8,2-2,1,8\n"), (CpuList{1, 2, 8}));
  EXPECT_EQ(parse_cpu_list(""), CpuList{});
}

// Fails if malformed text is accepted, or a huge range exhausts memory.
TEST(CpuList, RejectsMalformedText) {
  for (const char* text : {"a", "1-", "-1", "3-1", "1,,2", "1,", "1 2", "0-4000000000", "0x3"})
    EXPECT_THROW(parse_cpu_list(text), Error) << text;
}

// Fails if consecutive numbers are not joined into a range, or other numbers are.
TEST(CpuList, Writes) {
  EXPECT_EQ(format_cpu_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(format_cpu_list({}), "");
}

// Fails if the intersection is wrong.
TEST(CpuList, Intersects) { EXPECT_EQ(intersect({1, 2, 3}, {0, 2, 3, 9}), (CpuList{2, 3})); }

}  // namespace
}  // namespace anyaccel::topology
