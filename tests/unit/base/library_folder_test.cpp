#include "base/library_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "test_paths.h"

namespace anyaccel {
namespace {

// Broken when a program that contains AnyAccel's code, such as this one, does not find the build's
// libraries.
TEST(LibraryFolder, OfAProgramWithOurCode) {
  EXPECT_EQ(own_library_folder("test"), std::filesystem::canonical(ANYACCEL_BUILD_DIR) / "lib");
}

// Broken when the current folder decides.
TEST(LibraryFolder, AnyCurrentFolder) {
  std::filesystem::current_path("/");
  EXPECT_EQ(own_library_folder("test"), std::filesystem::canonical(ANYACCEL_BUILD_DIR) / "lib");
}

// Broken when the folder of another library is wrong.
TEST(LibraryFolder, OfAFunction) {
  EXPECT_TRUE(std::filesystem::exists(
      library_folder("test", static_cast<int (*)(const char*)>(&std::atoi)) / "libc.so.6"));
}

}  // namespace
}  // namespace anyaccel
