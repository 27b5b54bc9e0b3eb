#include "backends/cpu/malloc_tuning.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "base/process.h"

namespace anyaccel::backends::cpu {
namespace {

constexpr std::size_t kBlock = 24 << 20;

/// As a step that frees its tensors when it ends; the storages alone, for a small block above them would keep the heap from shrinking.
void fill_and_free() {
  std::vector<c10::DataPtr> storages(4);
  for (auto& storage : storages) {
    storage = c10::GetCPUAllocator()->allocate(kBlock);
    std::memset(storage.get(), 1, kBlock);
  }
}

/// How much of 96 MiB in four storages the process still has when they are freed.
std::int64_t kept_of_freed(int times) {
  const auto before = resident_bytes();
  for (int time = 0; time < times; ++time) fill_and_free();
  return resident_bytes() - before;
}

// Breaks when each step of a training gets its memory from the system again.
TEST(Heap, KeepsWhatIsFreed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
  GTEST_SKIP() << "malloc is not glibc's here";
#endif
  ASSERT_EQ(get_accelerator().name(), "cpu");
  // Twice: malloc's default learns from the first time, and then keeps less than this.
  EXPECT_GT(kept_of_freed(2), std::int64_t{3 * kBlock});
}

// Breaks when a program cannot keep malloc as it is, or the test above passes without the setting.
TEST(Heap, IsLeftAloneWhenAsked) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
  GTEST_SKIP() << "malloc is not glibc's here";
#endif
  ::setenv("ANYACCEL_HOST_CACHE_MB", "0", 1);
  ASSERT_EQ(get_accelerator().name(), "cpu");
  // Once: what malloc's default takes from the system block by block goes back whatever else lies on the heap. The second time a small
  // block of another thread above them may keep them there.
  EXPECT_LT(kept_of_freed(1), std::int64_t{3 * kBlock});
}

// Breaks when a value that means nothing is taken for another one.
TEST(Heap, NamesAWrongValue) {
  for (const char* value : {"-1", "2048", "much"}) {
    ::setenv("ANYACCEL_HOST_CACHE_MB", value, 1);
    try {
      keep_freed_memory();
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("ANYACCEL_HOST_CACHE_MB"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace anyaccel::backends::cpu
