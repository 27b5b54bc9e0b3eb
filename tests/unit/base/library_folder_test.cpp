#include "base/library_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "test_paths.h"

namespace anyaccel {
namespace {

// Fails if a program that contains AnyAccel's code, such as this one, does not find the folder of
// the build's libraries.
TEST(LibraryFolder, OfAProgramWithOurCode) {
  EXPECT_EQ(own_library_folder("test"), std::filesystem::canonical(ANYACCEL_BUILD_DIR) / "lib");
}

// Fails if the result depends on the current folder.
TEST(LibraryFolder, IgnoresTheCurrentFolder) {
  std::filesystem::current_path("/");
  EXPECT_EQ(own_library_folder("test"), std::filesystem::canonical(ANYACCEL_BUILD_DIR) / "lib");
}

// Fails if the folder of a library that is not part of AnyAccel is wrong.
TEST(LibraryFolder, OfAFunction) {
  EXPECT_TRUE(std::filesystem::exists(
      library_folder("test", static_cast<int (*)(const char*)>(&std::atoi)) / "libc.so.6"));
}

}  // namespace
}  // namespace anyaccel
