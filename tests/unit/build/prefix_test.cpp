// Tests how an op's prefix is found when its environment variable is not set.
#include "build/prefix.h"

#include <gmock/gmock.h>

#include "unit/build/fake_op.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;

struct PrefixTest : testing::Test {
  ScopedEnv ccache{"CCACHE_DISABLE", "1"};
  ScopedEnv none{"THING_ROOT", nullptr};
  FakeOp fake;
  void describe(const std::string& more = {}) const {
    fake.describe(
        "torch = no\nprefix_variable = THING_ROOT\nheader = thing/x.h: thing\nlink = thing\n" +
        more);
  }
  std::string prefix() const { return prefix_of(fake.op().description); }
};

// Fails if a package in the active virtual environment is not found, or the op's environment
// variable does not take precedence over it.
TEST_F(PrefixTest, ActiveEnvironment) {
  describe();
  fake.write("venv/include/thing/x.h", "x\n");
  const ScopedEnv venv("VIRTUAL_ENV", fake.path("venv").c_str());
  EXPECT_EQ(prefix(), "") << "its library is missing";
  fake.write("venv/lib/libthing.so", "x");
  EXPECT_EQ(prefix(), fake.path("venv").string());
  const ScopedEnv given("THING_ROOT", "/given");
  EXPECT_EQ(prefix(), "/given");
}

// Fails if a vendor's default location is not searched, or takes precedence over the virtual
// environment.
TEST_F(PrefixTest, LocationsInTheDescription) {
  const ScopedEnv venv("VIRTUAL_ENV", fake.path("venv").c_str());
  for (const auto* folder : {"vendor", "venv"}) {
    fake.write(std::string(folder) + "/include/thing/x.h", "x\n");
    fake.write(std::string(folder) + "/lib/libthing.so", "x");
  }
  describe();
  EXPECT_EQ(prefix(), fake.path("venv").string());
  fs::remove_all(fake.path("venv"));
  EXPECT_EQ(prefix(), "");
  fs::rename(fake.path("vendor"), "/tmp/anyaccel-prefix-" + std::to_string(::getpid()));
  describe("prefix = /nonexistent\nprefix = /tmp/anyaccel-prefix-" + std::to_string(::getpid()) +
           "\n");
  EXPECT_EQ(prefix(), "/tmp/anyaccel-prefix-" + std::to_string(::getpid()));
  fs::remove_all("/tmp/anyaccel-prefix-" + std::to_string(::getpid()));
  EXPECT_ERROR(parse_description("anyaccel_op = 1\nprefix = here\n"), corrupt, "absolute");
}

// Fails if the environment that contains LibTorch is not searched.
TEST_F(PrefixTest, EnvironmentOfLibTorch) {
  describe();
  const ScopedEnv venv("VIRTUAL_ENV", nullptr);
  const ScopedEnv torch("ANYACCEL_TORCH_DIR",
                        fake.path("py/lib/python3.99/site-packages/torch").c_str());
  const auto candidates = prefix_candidates(fake.op().description);
  EXPECT_THAT(candidates, testing::Contains(fake.path("py")));
}

// Fails if the prefix is missing from the commands or from the key.
TEST_F(PrefixTest, IsInCommandsAndKey) {
  describe();
  for (const auto* folder : {"one", "two"}) {
    fake.write(std::string(folder) + "/include/thing/x.h", "x\n");
    fake.write(std::string(folder) + "/lib/libthing.so", "x");
  }
  std::string key;
  for (const auto* folder : {"one", "two"}) {
    const ScopedEnv venv("VIRTUAL_ENV", fake.path(folder).c_str());
    const auto dry = dry_run(fake.op(), fake.settings);
    EXPECT_NE(dry.key, key);
    key = dry.key;
    EXPECT_THAT(dry.commands.front(), testing::HasSubstr(std::string(folder) + "/include"));
    // The test folder's name contains a quote, which is escaped in the command.
    EXPECT_THAT(dry.commands.back(),
                testing::ContainsRegex(std::string("-rpath,[^ ]*/") + folder + "/lib'"));
  }
}

}  // namespace
}  // namespace anyaccel::build
