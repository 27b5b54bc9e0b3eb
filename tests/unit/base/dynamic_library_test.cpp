#include "base/dynamic_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"

namespace anyaccel {
namespace {

using testing::HasSubstr;

// Fails if the library is not loaded, or its symbols are not found.
TEST(DynamicLibrary, FindsSymbols) {
  const DynamicLibrary math("libm.so.6");
  ASSERT_TRUE(math);
  EXPECT_DOUBLE_EQ(math.get<double (*)(double)>("sqrt")(9.0), 3.0);
  EXPECT_EQ(math.find("no_such_symbol_here"), nullptr);
}

// Fails if the error lacks the loader's reason or the name of the library.
TEST(DynamicLibrary, ErrorHasTheLoadersReason) {
  try {
    const DynamicLibrary library("libnot_there_at_all.so.9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("libnot_there_at_all.so.9"));
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
  std::string reason;
  EXPECT_FALSE(DynamicLibrary::try_open("libnot_there_at_all.so.9", &reason));
  EXPECT_THAT(reason, HasSubstr("No such file"));
}

// Fails if get() returns null for a missing symbol instead of throwing.
TEST(DynamicLibrary, ThrowsForAMissingSymbol) {
  const DynamicLibrary math("libm.so.6");
  try {
    math.get("no_such_symbol_here");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no_such_symbol_here"));
    EXPECT_THAT(error.what(), HasSubstr("libm.so.6"));
  }
}

// Fails if an empty name opens the program itself.
TEST(DynamicLibrary, RejectsAnEmptyName) { EXPECT_THROW(DynamicLibrary(""), Error); }

// Fails if a moved-from object still owns the library.
TEST(DynamicLibrary, Moves) {
  DynamicLibrary a("libm.so.6");
  DynamicLibrary b = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_TRUE(b);
  a = std::move(b);
  EXPECT_NE(a.find("sqrt"), nullptr);
}

}  // namespace
}  // namespace anyaccel
