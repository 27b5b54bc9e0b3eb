// Tests call stacks and symbols, including names that only the file's symbol table contains.
#include "backends/sim/check/stack.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "backends/sim/check/symbols.h"
#include "unit/llm/temporary_folder.h"

namespace anyaccel::backends::sim::checking {
namespace {

using testing::Contains;
using testing::HasSubstr;

[[gnu::noinline]] std::vector<std::string> a_function_of_the_program() {
  auto lines = stack_text(capture_stack());
  asm volatile("");  // prevents a tail call, which would remove this function's frame
  return lines;
}

// Fails if a stack lacks the program's function names, or includes frames of the checker.
TEST(SimCheckStack, NamesTheProgramsFunctions) {
  const auto lines = a_function_of_the_program();
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines, Contains(HasSubstr("a_function_of_the_program")));
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers give these functions their own frames
  EXPECT_THAT(lines, testing::Not(Contains(HasSubstr("capture_frames"))));
#endif
  EXPECT_THAT(lines[0], HasSubstr("#0 "));
}

// Fails if two call sites are treated as one, or one call site as several.
TEST(SimCheckStack, PlacesAreDistinct) {
  std::set<std::size_t> places;
  for (int i = 0; i < 3; ++i) places.insert(place(capture_stack()));
  EXPECT_EQ(places.size(), 1U);
  places.insert(place(capture_stack()));
  EXPECT_EQ(places.size(), 2U);
}

// Fails if symbols are read from a truncated file or from a file that is not ELF.
TEST(SimCheckStack, BrokenFilesHaveNoSymbols) {
  const llm::TemporaryFolder folder;
  EXPECT_TRUE(symbol_in_file((folder.path() / "none").string(), 16).name.empty());
  EXPECT_TRUE(symbol_in_file(folder.write("text", "no program").string(), 16).name.empty());
  std::ifstream in("/proc/self/exe", std::ios::binary);
  std::string start(4096, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  EXPECT_TRUE(symbol_in_file(folder.write("cut", start).string(), 16).name.empty());
  EXPECT_TRUE(symbol_in_file("/proc/self/exe", 1).name.empty());
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
