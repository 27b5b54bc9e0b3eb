#include "backends/sim/check/imports.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace anyaccel::backends::sim::checking {
namespace {

pid_t replaced_getppid() { return -7; }

std::size_t replace_in_program(void* function) {
  const Replacement replacements[] = {{"getppid", function}};
  return replace_imports([&](const LoadedObject& object) -> std::span<const Replacement> {
    if (object.path.empty()) return replacements;
    return {};
  });
}

// Fails if calls to an imported function do not reach its replacement, or a second replacement is
// counted again.
TEST(SimCheckImports, AreReplaced) {
  EXPECT_GT(::getppid(), 0);
  const auto original = reinterpret_cast<void*>(&::getppid);
  EXPECT_GE(replace_in_program(reinterpret_cast<void*>(&replaced_getppid)), 1U);
  EXPECT_EQ(::getppid(), -7);
  EXPECT_EQ(replace_in_program(reinterpret_cast<void*>(&replaced_getppid)), 0U);
  replace_in_program(original);
  EXPECT_GT(::getppid(), 0);
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
