#include "backends/cpu/allocator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "anyaccel/export.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// By default, sanitizers abort the program when malloc would return null.
extern "C" ANYACCEL_API const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" ANYACCEL_API const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
#endif

namespace anyaccel::backends::cpu {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

at::Tensor bytes_tensor(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }
std::int64_t current() { return counted_memory().allocated_bytes.current; }
std::int64_t peak() { return counted_memory().allocated_bytes.peak; }

// Fails if tensors created before the first call to get_accelerator() are not counted.
TEST(CountingAllocator, IsInstalledAtLoad) {
  EXPECT_TRUE(counts_allocations());
  EXPECT_NE(c10::GetCPUAllocator(), c10::GetDefaultCPUAllocator());
}

// Fails if the count differs from the total size of the live tensors, for example because it
// includes the allocator's headers.
TEST(CountingAllocator, CountsExactBytes) {
  const auto before = counted_memory();
  {
    const auto tensor = bytes_tensor(kMiB);
    EXPECT_EQ(current() - before.allocated_bytes.current, 1048576);
    EXPECT_EQ(counted_memory().allocation_count.current - before.allocation_count.current, 1);
    const auto view = tensor.slice(0, 5, 10);
    EXPECT_EQ(current() - before.allocated_bytes.current, 1048576);
    const auto odd = bytes_tensor(13);
    EXPECT_EQ(current() - before.allocated_bytes.current, 1048576 + 13);
  }
  EXPECT_EQ(current(), before.allocated_bytes.current);
  EXPECT_EQ(counted_memory().allocation_count.current, before.allocation_count.current);
}

// Fails if resetting the peak ignores live tensors, or the peak is updated only when it is read.
TEST(CountingAllocator, PeakPersistsUntilReset) {
  reset_counted_peaks();
  const auto base = current();
  const auto kept = bytes_tensor(kMiB);
  { const auto large = bytes_tensor(8 * kMiB); }
  EXPECT_EQ(peak(), base + 9 * kMiB);
  reset_counted_peaks();
  EXPECT_EQ(peak(), base + kMiB);
  { const auto small = bytes_tensor(kMiB); }
  EXPECT_EQ(peak(), base + 2 * kMiB);
}

// Fails if an in-place resize of a storage, which allocates, copies and frees memory, is not
// counted.
TEST(CountingAllocator, FollowsResize) {
  const auto base = current();
  auto tensor = at::ones({1000}, at::kFloat);
  tensor.resize_({5000});
  EXPECT_EQ(current(), base + 20000);
  EXPECT_EQ(tensor[999].item<float>(), 1.0f);
}

// Fails if memory that the caller owns is counted.
TEST(CountingAllocator, IgnoresMemoryOfTheCaller) {
  std::array<float, 256> memory{};
  const auto base = current();
  const auto tensor = at::from_blob(memory.data(), {256}, at::kFloat);
  EXPECT_EQ(current(), base);
}

// Fails if data is not aligned to 64 bytes for AVX-512, or an empty tensor allocates memory.
TEST(CountingAllocator, AlignsData) {
  for (const std::int64_t bytes : {1, 63, 64, 100, 4096, 3 << 20})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes_tensor(bytes).data_ptr()) % 64, 0u) << bytes;
  const auto base = counted_memory().allocation_count.current;
  const auto empty = bytes_tensor(0);
  EXPECT_EQ(empty.storage().data(), nullptr);
  EXPECT_EQ(counted_memory().allocation_count.current, base);
}

// Fails if the data and context pointers differ. Torch's raw allocation and lazy clones require
// them to be equal.
TEST(CountingAllocator, RawAllocation) {
  const auto base = current();
  auto* const allocator = c10::GetCPUAllocator();
  void* const memory = allocator->raw_allocate(100);
  EXPECT_EQ(current(), base + 100);
  allocator->raw_deallocate(memory);
  EXPECT_EQ(current(), base);
  EXPECT_TRUE(allocator->is_simple_data_ptr(allocator->allocate(8)));
}

// Fails if memory from torch's default allocator is counted when it is freed.
TEST(CountingAllocator, IgnoresMemoryOfTheDefaultAllocator) {
  const auto base = current();
  {
    c10::Storage storage(c10::Storage::use_byte_size_t{}, 64, c10::GetDefaultCPUAllocator(),
                         /*resizable=*/true);
    EXPECT_EQ(current(), base);
  }
  EXPECT_EQ(current(), base);
}

// Fails if the out-of-memory message lacks the requested size, or the failure is not counted.
TEST(CountingAllocator, OutOfMemoryErrorHasTheSize) {
  const auto before = counted_memory();
  const std::int64_t huge = std::int64_t{1} << 60;
  try {
    bytes_tensor(huge);
    FAIL();
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("DefaultCPUAllocator: can't allocate memory"));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(huge)));
  }
  // A size that overflows when the header is added must also be reported as out of memory.
  EXPECT_THROW(c10::GetCPUAllocator()->allocate(~std::size_t{0}), c10::OutOfMemoryError);
  EXPECT_EQ(counted_memory().num_ooms, before.num_ooms + 2);
  EXPECT_EQ(current(), before.allocated_bytes.current);
}

// Fails if concurrent updates are lost, or a tensor freed on another thread is still counted.
TEST(CountingAllocator, CountsAcrossThreads) {
  const auto base = counted_memory();
  reset_counted_peaks();
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::vector<std::vector<at::Tensor>> kept(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&kept, t] {
      auto& mine = kept[static_cast<std::size_t>(t)];
      for (int i = 0; i < kRounds; ++i) {
        const auto gone = bytes_tensor(1 + i % 100);
        if (i % 10 == 0) mine.push_back(bytes_tensor(1000));
        reset_counted_peaks();
      }
    });
  for (auto& thread : threads) thread.join();
  constexpr std::int64_t kKept = kThreads * kRounds / 10;
  EXPECT_EQ(current(), base.allocated_bytes.current + kKept * 1000);
  EXPECT_EQ(counted_memory().allocation_count.current, base.allocation_count.current + kKept);
  EXPECT_GE(peak(), current());
  kept.clear();
  EXPECT_EQ(current(), base.allocated_bytes.current);
}

}  // namespace
}  // namespace anyaccel::backends::cpu
