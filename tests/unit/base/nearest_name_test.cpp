// Tests suggestions for misspelled names.
#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace anyaccel {
namespace {

constexpr std::array<std::string_view, 6> kNames{
    "--num_nodes", "--num_accelerators", "--hostfile", "--json", "--quiet", "-q"};

TEST(NearestName, TypingErrors) {
  EXPECT_EQ(nearest_name("--num_acelerators", kNames), "--num_accelerators");
  EXPECT_EQ(nearest_name("--num-accelerator", kNames), "--num_accelerators");
  EXPECT_EQ(nearest_name("--hsotfile", kNames), "--hostfile");
  EXPECT_EQ(nearest_name("--jsn", kNames), "--json");
  EXPECT_EQ(did_you_mean("--quite", kNames), "; did you mean '--quiet'?");
}

// Fails if the full name is not suggested for an abbreviation. argparse would accept the
// abbreviation.
TEST(NearestName, Abbreviations) {
  EXPECT_EQ(nearest_name("--host", kNames), "--hostfile");
  EXPECT_EQ(nearest_name("--num-acc", kNames), "--num_accelerators");
}

TEST(NearestName, NoSimilarName) {
  for (const char* word : {"--xyzzyplugh", "--", "-", "", "-z", "--x", "--xml"})
    EXPECT_EQ(nearest_name(word, kNames), "") << word;
  EXPECT_EQ(did_you_mean("--xyzzyplugh", kNames), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'j'), kNames), "");
}

}  // namespace
}  // namespace anyaccel
