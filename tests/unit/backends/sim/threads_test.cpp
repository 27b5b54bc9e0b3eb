// Tests the simulated device with several threads and without torch ops. The thread sanitizer also
// runs these tests to detect data races.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "anyaccel/sim.h"
#include "backends/sim/allocator.h"
#include "backends/sim/event.h"
#include "backends/sim/graph.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/pinned.h"

namespace anyaccel::backends::sim {
namespace {

SimStream& stream(int device, int id) { return *runtime().devices[device]->streams[id]; }

template <typename Work>
void on_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
}

// Fails if a stream runs two functions concurrently or drops one, or a waiting thread is not woken.
TEST(SimThreads, ShareAStream) {
  anyaccel::sim::install({});
  auto& shared = stream(0, 1);
  long sum = 0;  // accessed only by the stream's worker thread
  on_threads(4, [&](int /*thread*/) {
    for (int i = 0; i < 500; ++i) {
      launch_function(shared, "add", {}, [&sum] { ++sum; });
      if (i % 50 == 0) synchronize(shared);
    }
  });
  synchronize(shared);
  EXPECT_EQ(sum, 2000);
}

// Fails if an event lets a stream continue too early, which gives wrong sums or a data race.
TEST(SimThreads, AreOrderedByEvents) {
  anyaccel::sim::install({});
  on_threads(3, [](int thread) {
    auto& first = stream(0, 1 + 2 * thread);
    auto& second = stream(1, 2 + 2 * thread);
    long value = 0;
    for (int i = 0; i < 200; ++i) {
      launch_function(first, "add", {}, [&value] { ++value; });
      SimEvent event(true);
      event.record(first);
      event.wait(second);
      launch_function(second, "double", {}, [&value] { value *= 2; });
      wait_mark(first, record_mark(second));
      launch_function(first, "halve", {}, [&value] { value /= 2; });
    }
    SimEvent end(true);
    end.record(first);
    end.synchronize();
    EXPECT_EQ(value, 200);
  });
}

// Fails if concurrent allocations return the same memory, or memory that another stream still uses.
TEST(SimThreads, AllocateAndFree) {
  anyaccel::sim::install({.memory = 256 << 20});
  on_threads(4, [](int thread) {
    exchange_stream(stream(0, 1 + thread));
    auto& own = stream(0, 1 + thread);
    auto& other = stream(0, 9 + thread);
    for (int i = 0; i < 200; ++i) {
      auto data = allocator().allocate_on(0, static_cast<std::size_t>(64 << (i % 12)));
      auto* value = static_cast<int*>(memory_map.alias(data.get()));
      launch_function(own, "write", {}, [value, i] { *value = i; });
      wait_mark(other, record_mark(own));
      allocator().recordStream(data, to_torch(other));
      launch_function(other, "check", {}, [value, i] { EXPECT_EQ(*value, i); });
      data.clear();
      if (i % 64 == 0) allocator().emptyCache();
      EXPECT_GE(allocator().getMemoryInfo(0).first, 0U);
    }
  });
  runtime().devices[0]->synchronize();
  const auto stats = allocator().getDeviceStats(0);
  EXPECT_EQ(stats.allocated_bytes[0].current, 0);
  EXPECT_EQ(stats.allocation[0].allocated, 800);
  EXPECT_EQ(stats.allocation[0].freed, 800);
}

// Fails if pinned memory is reused while a copy from that memory is queued.
TEST(SimThreads, SharePinnedMemory) {
  anyaccel::sim::install({});
  on_threads(3, [](int thread) {
    auto& own = stream(0, 1 + thread);
    for (int i = 0; i < 100; ++i) {
      auto data = pinned_allocator().allocate(4096);
      auto* host = static_cast<int*>(data.get());
      EXPECT_TRUE(is_pinned(host + 1000));
      *host = i;
      auto* view = static_cast<int*>(device_view(host));
      launch_function(own, "read", {}, [view, i] { EXPECT_EQ(*view, i); });
      pinned_allocator().record_event(host, nullptr, to_torch(own));
    }
    synchronize(own);
  });
}

// Fails if a capture loses or reorders work that another thread launches on a stream that has
// joined the capture.
TEST(SimThreads, CaptureTogether) {
  anyaccel::sim::install({});
  std::vector<int> order;
  auto& origin = stream(0, 1);
  auto& joined = stream(0, 2);
  exchange_stream(origin);
  SimGraph graph;
  graph.capture_begin({0, 0});
  launch_function(origin, "first", {}, [&order] { order.push_back(1); });
  wait_mark(joined, record_mark(origin));
  std::thread([&] {
    launch_function(joined, "second", {}, [&order] { order.push_back(2); });
  }).join();
  wait_mark(origin, record_mark(joined));
  launch_function(origin, "third", {}, [&order] { order.push_back(3); });
  graph.capture_end();
  EXPECT_TRUE(order.empty());
  graph.replay();
  graph.replay();
  synchronize(origin);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 1, 2, 3}));
}

// Fails if a kernel failure that several threads wait for is not thrown on exactly one of them.
TEST(SimThreads, FailureIsThrownOnce) {
  anyaccel::sim::install({.faults = "kernel=bad@1"});
  for (int id = 1; id <= 4; ++id) launch_function(stream(0, id), "good", {}, [] {});
  launch_function(stream(0, 1), "bad", {}, [] {});
  stream(0, 1).wait(stream(0, 1).last());
  std::atomic<int> told{0};
  on_threads(4, [&](int thread) {
    try {
      synchronize(stream(0, 1 + thread));
    } catch (const c10::AcceleratorError&) {
      ++told;
    }
  });
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace anyaccel::backends::sim
