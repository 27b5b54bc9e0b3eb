// Tests the selection of the compiler, with fake programs in PATH.
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
  ScopedEnv path{"PATH",
                 (folder / "links").string().append(":").append((folder / "bin").string()).c_str()};
  ToolchainTest() {
    for (const char* name : {"bin/ccache", "bin/g++"}) {
      folder.write(name, "#!/bin/sh\n");
      ::chmod((folder / name).c_str(), 0755);
    }
    fs::create_directory(folder / "links");
    fs::create_symlink(folder / "bin/ccache", folder / "links/g++");
  }
};

// Fails if ccache is identified as the compiler. The key would then contain ccache's size and time
// stamp, and would not change with the compiler.
TEST_F(ToolchainTest, CcacheIsNotTheCompiler) {
  const auto real = (folder / "bin/g++").string();
  for (const auto& cxx :
       {std::string("g++"), std::string("ccache g++"), (folder / "links/g++").string(),
        (folder / "bin/ccache").string() + "  g++"}) {
    const ScopedEnv set("CXX", cxx.c_str());
    EXPECT_EQ(find_compiler(""), real) << cxx;
  }
  const ScopedEnv alone("CXX", (folder / "bin/ccache").c_str());
  EXPECT_ERROR(find_compiler(""), unavailable, "was not found");
}

// Fails if arguments after the program are ignored, or a program with a space in its path is not
// found.
TEST_F(ToolchainTest, ProgramsWithArguments) {
  const ScopedEnv command("CXX", "g++ -m32");
  EXPECT_ERROR(find_compiler(""), unavailable, "must name a single program");
  folder.write("with space/g++", "");
  ::chmod((folder / "with space/g++").c_str(), 0755);
  EXPECT_EQ(find_compiler((folder / "with space/g++").string()),
            (folder / "with space/g++").string());
}

// Fails if CCACHE_COMPILER, which the key does not cover, can make ccache run a different compiler.
TEST_F(ToolchainTest, CcacheRunsTheSelectedCompiler) {
  const ScopedEnv compiler("CCACHE_COMPILER", "/opt/other"), where("CCACHE_DIR", "/tmp/c");
  const auto environment = build_environment();
  EXPECT_THAT(environment, testing::Contains("CCACHE_DIR=/tmp/c"));
  EXPECT_THAT(environment,
              testing::Not(testing::Contains(testing::StartsWith("CCACHE_COMPILER="))));
}

}  // namespace

}  // namespace anyaccel::build
