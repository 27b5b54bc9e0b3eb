// Tests the pool of pinned memory, on a fake system with configurable limits and nodes.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "anyaccel/error.h"
#include "io/pinned/pool.h"

namespace anyaccel::ops::pin {
namespace {

struct Machine {
  std::size_t lockable = 1 << 20;
  int nodes = 1;
  int node = 0;
  int bind_error = 0;
  std::size_t mappable = std::size_t{1} << 30;
  std::function<void()> while_locking;
  std::map<void*, std::size_t> maps;
  std::map<void*, std::size_t> locks;
  std::map<void*, int> bound;
};

class FakeSystem final : public System {
 public:
  explicit FakeSystem(Machine& machine) : machine_(machine) {}
  void* map(std::size_t bytes) noexcept override {
    std::size_t all = bytes;
    for (const auto& [other, size] : machine_.maps) all += size;
    if (all > machine_.mappable) return nullptr;
    void* out = std::aligned_alloc(4096, bytes);
    machine_.maps[out] = bytes;
    return out;
  }
  void unmap(void* address, std::size_t) noexcept override {
    machine_.locks.erase(address);
    machine_.maps.erase(address);
    std::free(address);
  }
  int lock(void* address, std::size_t bytes) noexcept override {
    std::size_t all = bytes;
    for (const auto& [other, size] : machine_.locks) all += size;
    if (all > machine_.lockable) return ENOMEM;
    machine_.locks[address] = bytes;
    if (const auto call = std::exchange(machine_.while_locking, {})) call();
    return 0;
  }
  int bind(void* address, std::size_t, int node) noexcept override {
    if (machine_.bind_error == 0) machine_.bound[address] = node;
    return machine_.bind_error;
  }
  int node_count() const noexcept override { return machine_.nodes; }
  int current_node() const noexcept override { return machine_.node; }
  std::uint64_t lock_limit() const noexcept override { return machine_.lockable; }

 private:
  Machine& machine_;
};

class PinPool : public testing::Test {
 protected:
  PinPool() : pool(std::make_unique<FakeSystem>(machine)) {}
  std::string error_of(std::size_t bytes) {
    try {
      pool.allocate(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      return error.what();
    }
    return {};
  }
  Machine machine;
  Pool pool;
};

// Fails if free blocks are not reused, or are wasted on small requests.
TEST_F(PinPool, ReusesAndCounts) {
  auto* first = pool.allocate(100000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 4096, 0U);
  auto now = pool.statistics();
  EXPECT_EQ(now.used_bytes, 102400);
  EXPECT_EQ(now.held_bytes, 102400);
  pool.give_back(first);
  EXPECT_EQ(pool.statistics().used_bytes, 0);
  EXPECT_EQ(pool.statistics().held_bytes, 102400);
  auto* small = pool.allocate(5000);  // reuse would waste most of the free block
  EXPECT_NE(small, first);
  EXPECT_EQ(pool.allocate(99000), first);
  now = pool.statistics();
  EXPECT_EQ(now.taken, 3);
  EXPECT_EQ(now.reused, 1);
  EXPECT_EQ(now.used_peak, 102400 + 8192);
  pool.give_back(first);
  pool.trim();
  EXPECT_EQ(machine.maps.size(), 1U);
  EXPECT_EQ(pool.statistics().held_bytes, 8192);
  EXPECT_EQ(pool.statistics().held_peak, 102400 + 8192);
  EXPECT_EQ(pool.allocate(0), nullptr);
}

// Fails if a range within a block is not recognized as pinned, or a range that exceeds the block
// is.
TEST_F(PinPool, RecognizesViews) {
  auto* block = static_cast<char*>(pool.allocate(10000));
  EXPECT_TRUE(pool.contains(block, 10000));
  EXPECT_TRUE(pool.contains(block + 9999, 1));
  EXPECT_FALSE(pool.contains(block + 1, 10000));
  EXPECT_FALSE(pool.contains(block - 1, 2));
  // With this length, the end address overflows.
  EXPECT_FALSE(pool.contains(block + 1, std::numeric_limits<std::size_t>::max()));
  EXPECT_FALSE(pool.contains(&machine, 1));
  EXPECT_FALSE(pool.retire(block + 1));
  EXPECT_TRUE(pool.retire(block));
  EXPECT_FALSE(pool.contains(block, 1));
  EXPECT_FALSE(pool.retire(block));  // a block can be retired only once
  // The block is not handed out again until its last owner releases it.
  EXPECT_NE(pool.allocate(10000), block);
  EXPECT_EQ(pool.statistics().used_bytes, 12288);
  pool.give_back(block);
  EXPECT_EQ(pool.statistics().used_bytes, 12288);
  EXPECT_EQ(pool.allocate(10000), block);
}

// Fails if free blocks are not released to stay within a limit, or the error lacks a remedy.
TEST_F(PinPool, LimitErrorsNameARemedy) {
  auto* half = pool.allocate(600 << 10);
  EXPECT_NE(error_of(600 << 10).find("raise RLIMIT_MEMLOCK, which is 1048576 bytes (`ulimit -l`"),
            std::string::npos);
  EXPECT_EQ(machine.maps.size(), 1U);
  pool.give_back(half);
  EXPECT_NE(pool.allocate(1 << 20), nullptr);
  EXPECT_EQ(machine.maps.size(), 1U);
  pool.set_limit(2 << 20);
  machine.lockable = 8 << 20;
  EXPECT_NE(pool.allocate(1 << 20), nullptr);
  const auto text = error_of(1);
  EXPECT_NE(
      text.find("at most 2097152 bytes in total; free tensors, or raise ANYACCEL_PIN_MEMORY_LIMIT"),
      std::string::npos)
      << text;
  EXPECT_FALSE(error_of(~std::size_t{0}).empty());
}

// Fails if free blocks are not unmapped when a new block cannot be mapped.
TEST_F(PinPool, FreeBlocksAreUnmappedForNewOnes) {
  machine.mappable = 200000;
  auto* first = pool.allocate(150000);
  EXPECT_FALSE(error_of(100000).empty());
  pool.give_back(first);
  EXPECT_NE(pool.allocate(100000), nullptr);
  EXPECT_EQ(machine.maps.size(), 1U);
}

// Fails if a slow mlock() on one thread blocks other threads, or the threads together can exceed
// the limit.
TEST_F(PinPool, SlowLockDoesNotBlockOtherThreads) {
  machine.lockable = 8 << 20;
  auto* free_one = pool.allocate(4096);
  pool.give_back(free_one);
  pool.set_limit((1 << 20) + 8192);
  bool served = false, refused = false;
  machine.while_locking = [&] {
    auto other = std::async(std::launch::async, [&] {
      auto* again = pool.allocate(4096);  // reused without a system call
      served = again == free_one && pool.contains(again, 4096);
      pool.give_back(again);
      // The block that is being locked already counts toward the limit, so only one more page fits.
      refused = !error_of(64 << 10).empty();
    });
    if (other.wait_for(std::chrono::seconds(10)) == std::future_status::timeout) {
      std::fputs("allocate() waits for another thread's mlock\n", stderr);
      std::_Exit(1);  // the other thread would wait for this one forever
    }
  };
  EXPECT_NE(pool.allocate(1 << 20), nullptr);
  EXPECT_TRUE(served);
  EXPECT_TRUE(refused);
  EXPECT_LE(pool.statistics().held_bytes, (1 << 20) + 8192);
  EXPECT_LE(pool.statistics().held_peak, (1 << 20) + 8192);
}

// Fails if a failed allocation is counted.
TEST_F(PinPool, FailedAllocationsAreNotCounted) {
  machine.lockable = 10000;
  EXPECT_FALSE(error_of(20000).empty());
  EXPECT_EQ(pool.statistics().held_bytes, 0);
  EXPECT_EQ(pool.statistics().used_bytes, 0);
  EXPECT_TRUE(machine.maps.empty());
  machine.mappable = 5000;
  EXPECT_FALSE(error_of(8000).empty());
  EXPECT_EQ(pool.statistics().held_bytes, 0);
  pool.set_limit(8192);
  EXPECT_NE(pool.allocate(4096), nullptr);
}

// Fails if large blocks lack the alignment that allows the kernel to use huge pages.
TEST(PinSystem, LargeBlocksAreAlignedToLargePages) {
  System system;
  constexpr std::size_t kBytes = (6 << 20) + 4096;
  void* block = system.map(kBytes);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (2 << 20), 0U);
  std::memset(block, 1, kBytes);
  system.unmap(block, kBytes);
  // The whole block, including its alignment padding, must be unmapped.
  EXPECT_NE(::msync(block, 4096, MS_ASYNC), 0);
  EXPECT_NE(::msync(static_cast<char*>(block) + kBytes - 4096, 4096, MS_ASYNC), 0);
}

// Fails if a block is not on the NUMA node of the thread that allocates it, or is reused on another
// node.
TEST_F(PinPool, Nodes) {
  auto* alone = pool.allocate(4096);
  EXPECT_TRUE(machine.bound.empty());
  machine.nodes = 2;
  machine.node = 1;
  auto* there = pool.allocate(8192);
  EXPECT_EQ(machine.bound[there], 1);
  pool.give_back(there);
  machine.node = 0;
  EXPECT_NE(pool.allocate(8192), there);
  machine.node = 1;
  EXPECT_EQ(pool.allocate(8192), there);
  machine.bind_error = EPERM;
  EXPECT_NE(pool.allocate(4096), alone);
  EXPECT_EQ(pool.statistics().misplaced, 1);
  EXPECT_EQ(pool.placement_problem(), std::string("node 1: ") + std::strerror(EPERM));
}

// Fails if memory cannot be allocated with the real system calls, or two threads get the same
// block.
TEST(PinSystem, RealMemoryAndThreads) {
  Pool pool;
  void* block = nullptr;
  try {
    block = pool.allocate(65536);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  std::memset(block, 1, 65536);
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&pool, number] {
      for (int i = 0; i < 200; ++i) {
        auto* mine = static_cast<volatile char*>(pool.allocate(4096));
        *mine = static_cast<char>(number);
        std::this_thread::yield();
        EXPECT_EQ(*mine, number);
        pool.give_back(const_cast<char*>(mine));
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool.statistics().used_bytes, 65536);
  EXPECT_LE(pool.statistics().held_peak, 65536 + 4 * 4096);
  EXPECT_GE(System().node_count(), 1);
  EXPECT_GE(System().current_node(), 0);
}

// Fails if a size is parsed incorrectly, or invalid text is accepted.
TEST(PinLimit, Text) {
  EXPECT_EQ(parse_bytes("123"), 123);
  EXPECT_EQ(parse_bytes("8GiB"), 8LL << 30);
  for (const char* wrong : {"", "-1", "1GB", "9999999999TiB", "a"})
    EXPECT_THROW(parse_bytes(wrong), Error) << wrong;
}

}  // namespace
}  // namespace anyaccel::ops::pin
