// Tests the lookup of programs in PATH.
#include "base/program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "unit/llm/temporary_folder.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;

struct ProgramTest : testing::Test {
  llm::TemporaryFolder folder;

  std::string write(const std::string& name, ::mode_t mode) {
    folder.write(name, "#!/bin/sh\n");
    ::chmod((folder / name).c_str(), mode);
    return (folder / name).string();
  }
};

// Fails if a folder or a non-executable file is returned, or the order of PATH is ignored.
TEST_F(ProgramTest, FirstExecutableWins) {
  fs::create_directories(folder / "a" / "tool");
  write("b/tool", 0644);
  const auto third = write("c/tool", 0755);
  write("d/tool", 0755);
  std::string folders;
  for (const char* name : {"a", "b", "c", "d"})
    folders += (folders.empty() ? "" : ":") + (folder / name).string();
  const ScopedEnv path("PATH", folders.c_str());
  EXPECT_EQ(find_program("tool"), third);
  EXPECT_EQ(find_program("other"), std::nullopt);
  EXPECT_EQ(find_program(""), std::nullopt);
}

// Fails if a name with a slash is searched for in PATH, or the search rejects such a name. Errors
// are reported when the program runs.
TEST_F(ProgramTest, PathsAreReturnedUnchanged) {
  const ScopedEnv path("PATH", folder.path().c_str());
  write("tool", 0755);
  EXPECT_EQ(find_program("./tool"), "./tool");
  EXPECT_EQ(find_program("/no/such/tool"), "/no/such/tool");
}

// Fails if an empty entry of PATH does not mean the current folder, as in execvp().
TEST_F(ProgramTest, EmptyEntryIsTheCurrentFolder) {
  write("anyaccel-program-test", 0755);
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  for (const char* entries : {"", ":/none", "/none:", "/none::/none"}) {
    const ScopedEnv path("PATH", entries);
    EXPECT_EQ(find_program("anyaccel-program-test"), "./anyaccel-program-test")
        << "'" << entries << "'";
  }
  fs::current_path(before);
}

// Fails if the search ends at a program that the caller rejects.
TEST_F(ProgramTest, RejectedProgramIsSkipped) {
  write("a/tool", 0755);
  const auto second = write("b/tool", 0755);
  const ScopedEnv path("PATH", ((folder / "a").string() + ":" + (folder / "b").string()).c_str());
  EXPECT_EQ(find_program("tool", [&](const std::string& file) { return file == second; }), second);
  EXPECT_EQ(find_program("tool", [](const std::string&) { return false; }), std::nullopt);
}

// Fails if nothing is found when PATH is unset.
TEST_F(ProgramTest, NoPath) {
  const ScopedEnv path("PATH", nullptr);
  EXPECT_TRUE(is_program(find_program("sh").value_or("")));
}

}  // namespace
}  // namespace anyaccel
