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
constexpr std::size_t kBlocks = 20;

/// Simulates a training step that frees all its tensors at the end. Allocates their memory
/// directly, because a tensor object on the heap above that memory would prevent the heap from
/// shrinking.
void fill_and_free() {
  std::vector<c10::DataPtr> storages(kBlocks);
  for (auto& storage : storages) {
    storage = c10::GetCPUAllocator()->allocate(kBlock);
    std::memset(storage.get(), 1, kBlock);
  }
}

/// Returns how much memory the process keeps after allocating and freeing 20 storages (480 MiB)
/// `times` times.
std::int64_t kept_of_freed(int times) {
  const auto before = resident_bytes();
  for (int time = 0; time < times; ++time) fill_and_free();
  return resident_bytes() - before;
}

// Fails if each training step requests its memory from the kernel again.
TEST(Heap, KeepsFreedMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
  GTEST_SKIP() << "malloc is not glibc's";
#endif
  ASSERT_EQ(get_accelerator().name(), "cpu");
  // Run it twice, because malloc raises its default mmap threshold after the first run. Without the
  // setting, malloc would still keep less memory than this.
  EXPECT_GT(kept_of_freed(2), std::int64_t{(kBlocks - 1) * kBlock});
}

// Fails if ANYACCEL_HOST_CACHE_MB=0 does not disable the setting, or the previous test would pass
// without the setting.
TEST(Heap, SettingCanBeDisabled) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
  GTEST_SKIP() << "malloc is not glibc's";
#endif
  ::setenv("ANYACCEL_HOST_CACHE_MB", "0", 1);
  ASSERT_EQ(get_accelerator().name(), "cpu");
  // Run it only once. By default, malloc maps each large block separately, so freeing a block
  // unmaps it regardless of the rest of the heap. A second run would use the heap, where a small
  // block that another thread allocates above the large ones may prevent their release.
  EXPECT_LT(kept_of_freed(1), std::int64_t{(kBlocks - 1) * kBlock});
}

// Fails if an invalid value of ANYACCEL_HOST_CACHE_MB is accepted.
TEST(Heap, RejectsInvalidValues) {
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
