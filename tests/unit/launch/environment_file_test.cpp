// Tests that the lines of .deepspeed_env reach the ranks unchanged. Blank lines and comments, which
// DeepSpeed does not support, are allowed.
#include "launch/environment_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "anyaccel/error.h"

namespace anyaccel::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(EnvironmentFile, LinesAreReadVerbatim) {
  const auto variables =
      parse_environment_file("# mine\n\nA=1\r\n  B = x y=z \nC=\nQ=\"a b\"\nA=2", "f");
  EXPECT_THAT(variables,
              ElementsAre(Pair("A", "2"), Pair("B", "x y=z"), Pair("C", ""), Pair("Q", "\"a b\"")));
}

TEST(EnvironmentFile, InvalidLinesAreReported) {
  for (const char* text : {"A=1\nnothing", "\n=1", "\n1A=1", "\nA-B=1", "\nexport A=1"}) {
    try {
      parse_environment_file(text, "file");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("file:2 does not set a variable"));
    }
  }
}

TEST(EnvironmentFile, HomeThenCurrentFolder) {
  const std::filesystem::path folder =
      testing::TempDir() + "launch_environment_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder / "home");
  std::filesystem::create_directories(folder / "here");
  std::ofstream(folder / "home/.deepspeed_env") << "A=home\nB=home\n";
  std::ofstream(folder / "here/.deepspeed_env") << "B=here\n";
  std::ofstream(folder / "here/other") << "C=other\n";
  ::setenv("HOME", (folder / "home").c_str(), 1);
  ::unsetenv("DS_ENV_FILE");
  std::filesystem::current_path(folder / "here");
  EXPECT_THAT(environment_files(), ElementsAre(Pair("A", "home"), Pair("B", "here")));
  ::setenv("DS_ENV_FILE", "other", 1);
  EXPECT_THAT(environment_files(), ElementsAre(Pair("C", "other")));
  ::setenv("DS_ENV_FILE", (folder / "home/.deepspeed_env").c_str(), 1);
  EXPECT_THAT(environment_files(), ElementsAre(Pair("A", "home"), Pair("B", "home")));
  ::setenv("DS_ENV_FILE", "not_there", 1);
  EXPECT_TRUE(environment_files().empty());
  std::filesystem::current_path(testing::TempDir());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace anyaccel::launch
