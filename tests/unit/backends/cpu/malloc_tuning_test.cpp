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

/// Simulates a step that frees its tensors at its end. It uses bare storages, because a small block
/// above them would keep the heap from shrinking.
void fill_and_free() {
  std::vector<c10::DataPtr> storages(4);
  for (auto& storage : storages) {
    storage = c10::GetCPUAllocator()->allocate(kBlock);
    std::memset(storage.get(), 1, kBlock);
  }
}

/// Returns how much of the memory of four storages (96 MiB) the process keeps after freeing them.
std::int64_t kept_of_freed(int times) {
  const auto before = resident_bytes();
  for (int time = 0; time < times; ++time) fill_and_free();
  return resident_bytes() - before;
}

// Fails if each training step requests its memory from the system again.
TEST(Heap, KeepsWhatIsFreed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
  GTEST_SKIP() << "malloc is not glibc's here";
#endif
  ASSERT_EQ(get_accelerator().name(), "cpu");
  // Twice: malloc adapts its default threshold after the first time, and would then keep less than
  // this.
  EXPECT_GT(kept_of_freed(2), std::int64_t{3 * kBlock});
}

// Fails if a program cannot disable the setting, or the test above passes without it.
TEST(Heap, IsLeftAloneWhenAsked) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
  GTEST_SKIP() << "malloc is not glibc's here";
#endif
  ::setenv("ANYACCEL_HOST_CACHE_MB", "0", 1);
  ASSERT_EQ(get_accelerator().name(), "cpu");
  // Once: memory that malloc maps block by block by default is unmapped, whatever else is on the
  // heap. The second time, a small block of another thread above it may prevent that.
  EXPECT_LT(kept_of_freed(1), std::int64_t{3 * kBlock});
}

// Fails if an invalid value is accepted.
TEST(Heap, NamesAWrongValue) {
  for (const char* value : {"-1", "2048", "much"}) {
    ::setenv("ANYACCEL_HOST_CACHE_MB", value, 1);
    try {
      keep_freed_memory();
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("ANYACCEL_HOST_CACHE_MB"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace anyaccel::backends::cpu
