// Which compiler is meant, with programs of the test's own in PATH.
#include "build/toolchain.h"

#include <sys/stat.h>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;

struct ToolchainTest : testing::Test {
  llm::TemporaryFolder folder;
  ScopedEnv path{"PATH", (folder / "links").string().append(":").append((folder / "bin").string()).c_str()};
  ToolchainTest() {
    for (const char* name : {"bin/ccache", "bin/g++"}) {
      folder.write(name, "#!/bin/sh\n");
      ::chmod((folder / name).c_str(), 0755);
    }
    fs::create_directory(folder / "links");
    fs::create_symlink(folder / "bin/ccache", folder / "links/g++");
  }
};

// Broken when ccache is taken for a compiler: its own size and time then stand for the compiler's, and a new compiler is the old one.
TEST_F(ToolchainTest, CcacheIsNoCompiler) {
  const auto real = (folder / "bin/g++").string();
  for (const auto& cxx : {std::string("g++"), std::string("ccache g++"), (folder / "links/g++").string(),
                          (folder / "bin/ccache").string() + "  g++"}) {
    const ScopedEnv set("CXX", cxx.c_str());
    EXPECT_EQ(find_compiler(""), real) << cxx;
  }
  const ScopedEnv alone("CXX", (folder / "bin/ccache").c_str());
  EXPECT_ERROR(find_compiler(""), unavailable, "is not there");
}

// Broken when words after the program are dropped without a word, or a program with a space in its path is not found.
TEST_F(ToolchainTest, ProgramsWithWords) {
  const ScopedEnv command("CXX", "g++ -m32");
  EXPECT_ERROR(find_compiler(""), unavailable, "more than one program's name");
  folder.write("with space/g++", "");
  ::chmod((folder / "with space/g++").c_str(), 0755);
  EXPECT_EQ(find_compiler((folder / "with space/g++").string()), (folder / "with space/g++").string());
}

// Broken when ccache is told, behind the key's back, to run another compiler.
TEST_F(ToolchainTest, CcacheRunsOurCompiler) {
  const ScopedEnv compiler("CCACHE_COMPILER", "/opt/other"), where("CCACHE_DIR", "/tmp/c");
  const auto environment = build_environment();
  EXPECT_THAT(environment, testing::Contains("CCACHE_DIR=/tmp/c"));
  EXPECT_THAT(environment, testing::Not(testing::Contains(testing::StartsWith("CCACHE_COMPILER="))));
}

}  // namespace

}  // namespace anyaccel::build
