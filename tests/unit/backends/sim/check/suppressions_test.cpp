#include "backends/sim/check/suppressions.h"

#include <gtest/gtest.h>

#include "unit/support/expect_error.h"

namespace anyaccel::backends::sim::checking {
namespace {

Problem unordered_mm() {
  return {.kind = Kind::unordered_streams,
          .what = {},
          .now = {.op = "aten::mm.out",
                  .stream = {},
                  .shape = {},
                  .stack = {"File \"train.py\", line 7 in step", "#0 main (program)"}},
          .before = {.op = "aten::copy_", .stream = {}, .shape = {}}};
}

bool suppressed(std::string_view text) {
  return Suppressions::parse(text, "known.txt").match(unordered_mm());
}

// Fails if a line suppresses a problem that it does not match, or fails to suppress one that it
// matches.
TEST(SimCheckSuppressions, KindAndPatternMustMatch) {
  EXPECT_TRUE(suppressed("unordered_streams:aten::mm.out\n"));
  EXPECT_TRUE(suppressed("*:aten::copy_"));
  EXPECT_TRUE(suppressed("# known\n\n  unordered_streams : aten::*  \n"));
  EXPECT_TRUE(suppressed("unordered_streams:train.py\", line 7"));
  EXPECT_TRUE(suppressed("unordered_streams:train.py*in step"));
  EXPECT_FALSE(suppressed("freed_in_use:aten::mm.out\n"));
  EXPECT_FALSE(suppressed("unordered_streams:aten::mm\n"));
  EXPECT_FALSE(suppressed("unordered_streams:other.py"));
  EXPECT_FALSE(suppressed(""));
}

// Fails if a kind of problem cannot be suppressed by its name, for example because it is new.
TEST(SimCheckSuppressions, AcceptEveryKind) {
  for (const auto kind :
       {Kind::host_access, Kind::unordered_threads, Kind::uninitialized, Kind::leak,
        Kind::other_accelerator, Kind::out_of_bounds, Kind::unseeded_device}) {
    auto problem = unordered_mm();
    problem.kind = kind;
    EXPECT_TRUE(
        Suppressions::parse(std::string(name(kind)) + ":aten::mm.out", "known.txt").match(problem))
        << name(kind);
  }
}

// Fails if an invalid line is ignored. The user would believe that a problem is suppressed.
TEST(SimCheckSuppressions, InvalidLinesAreErrors) {
  EXPECT_ERROR(Suppressions::parse("\nraces:aten::mm\n", "known.txt"), invalid_argument,
               "line 2 of \"known.txt\"");
  EXPECT_ERROR(Suppressions::parse("freed_in_use", "f"), invalid_argument, "line 1");
  EXPECT_ERROR(Suppressions::parse("freed_in_use:  ", "f"), invalid_argument, "KIND:PATTERN");
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
