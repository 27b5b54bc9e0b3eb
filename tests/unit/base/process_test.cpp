#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace anyaccel {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// Fails if memory is not reported in bytes, or the peak falls when memory is freed.
TEST(Process, ResidentBytesFollowMemory) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's shadow memory is also resident";
#endif
  const auto before = resident_bytes();
  constexpr std::size_t bytes = 64 * kMiB;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, bytes);
  const auto full = resident_bytes();
  ASSERT_EQ(::munmap(memory, bytes), 0);
  const auto after = resident_bytes();
  EXPECT_NEAR(static_cast<double>(full - before), 64.0 * kMiB, 8.0 * kMiB);
  EXPECT_LT(after, full - 56 * kMiB);
  EXPECT_GE(peak_resident_bytes(), full - 8 * kMiB);
  const auto both = resident_memory();
  EXPECT_NEAR(static_cast<double>(both.bytes - after), 0.0, 8.0 * kMiB);
  EXPECT_GE(both.peak_bytes, full - 8 * kMiB);
  // Fails if the reset returns true without taking effect. It may return false, because some
  // sandboxes forbid it.
  if (reset_peak_resident_bytes()) {
    EXPECT_LT(peak_resident_bytes(), full - 48 * kMiB);
  }
}

}  // namespace
}  // namespace anyaccel
