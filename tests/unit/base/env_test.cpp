#include "base/env.h"

#include <gtest/gtest.h>

#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel {
namespace {

using test::ScopedEnv;
constexpr const char* kName = "ANYACCEL_ENV_TEST";

// Fails if an environment variable with an empty value counts as set.
TEST(Env, EmptyIsUnset) {
  const ScopedEnv unset(kName, nullptr);
  EXPECT_EQ(env(kName), std::nullopt);
  EXPECT_FALSE(env_flag(kName));
  EXPECT_EQ(env_int(kName, 0, 9), std::nullopt);
  const ScopedEnv empty(kName, "");
  EXPECT_EQ(env(kName), std::nullopt);
  const ScopedEnv set(kName, "x y");
  EXPECT_EQ(env(kName), "x y");
}

// Fails if a spelling of true or false is not recognized, or other text is accepted.
TEST(Env, Flags) {
  for (const char* yes : {"1", "true", "YES", "On"}) {
    const ScopedEnv value(kName, yes);
    EXPECT_TRUE(env_flag(kName)) << yes;
  }
  for (const char* no : {"0", "False", "no", "OFF"}) {
    const ScopedEnv value(kName, no);
    EXPECT_FALSE(env_flag(kName)) << no;
  }
  const ScopedEnv value(kName, "maybe");
  EXPECT_ERROR(env_flag(kName), invalid_argument, "maybe");
}

// Fails if a number followed by other text is accepted, or the range is not checked.
TEST(Env, Numbers) {
  {
    const ScopedEnv value(kName, "-7");
    EXPECT_EQ(env_int(kName, -10, 10), -7);
    EXPECT_ERROR(env_int(kName, 0, 10), invalid_argument, "0 to 10");
  }
  for (const char* bad : {"7x", "x", " 7", "7.5", "99999999999999999999"}) {
    const ScopedEnv value(kName, bad);
    EXPECT_ERROR(env_int(kName, 0, 1000), invalid_argument, kName);
  }
}

// Fails if the launcher's world size is ignored, or an invalid world size counts as one rank.
TEST(Env, StartedRanks) {
  const ScopedEnv unset("WORLD_SIZE", nullptr);
  EXPECT_EQ(started_ranks(), 1);
  const ScopedEnv four("WORLD_SIZE", "4");
  EXPECT_EQ(started_ranks(), 4);
  const ScopedEnv none("WORLD_SIZE", "0");
  EXPECT_ERROR(started_ranks(), invalid_argument, "WORLD_SIZE");
}

// Fails if a unit is misread, or an invalid size is accepted.
TEST(Env, Bytes) {
  unsetenv("ANYACCEL_TEST_BYTES");
  EXPECT_EQ(env_bytes("ANYACCEL_TEST_BYTES"), std::nullopt);
  for (const auto& [text, bytes] : {std::pair{"0", 0LL},
                                    {"12", 12LL},
                                    {"2K", 2048LL},
                                    {"1.5M", 1572864LL},
                                    {"3G", 3221225472LL}}) {
    setenv("ANYACCEL_TEST_BYTES", text, 1);
    EXPECT_EQ(env_bytes("ANYACCEL_TEST_BYTES"), bytes) << text;
  }
  for (const char* text : {"x", "-1", "2T", "1 G", "nan", "1e300"}) {
    setenv("ANYACCEL_TEST_BYTES", text, 1);
    EXPECT_ERROR(env_bytes("ANYACCEL_TEST_BYTES"), invalid_argument,
                 "want a number of bytes, optionally with the suffix K, M or G");
  }
}

}  // namespace
}  // namespace anyaccel
