// Tests the lifetime of received device memory. tests/python/sim_ipc_test.py tests the rest with
// two processes; here, one process is both the sender and the receiver.
#include "backends/sim/ipc.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "anyaccel/sim.h"
#include "backends/sim/allocator.h"
#include "backends/sim/kernels.h"

namespace anyaccel::backends::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kMiB = 1 << 20;

at::Tensor bytes_on_device(std::int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(runtime().device(0)));
}

struct SimIpc : testing::Test {
  SimIpc() {
    ::alarm(60);  // terminates a test that hangs
    anyaccel::sim::install({.memory = 64 * kMiB});
    sent = at::ones({4}, at::TensorOptions().device(runtime().device(0)));
  }
  ~SimIpc() override { ::alarm(0); }

  SimStream& stream() { return *runtime().devices[0]->streams[0]; }
  at::Tensor received() { return open_shared(share(sent), 0); }
  /// Frees received memory while the stream is busy. The worker then drops the last reference.
  void free_received_behind_a_slow_task() {
    auto tensor = received();
    launch_function(stream(), "slow", {}, [] { std::this_thread::sleep_for(300ms); });
    tensor.reset();
  }

  at::Tensor sent;
};

// Fails if the worker that drops received memory needs a lock that empty_cache() holds while it
// waits for that worker.
TEST_F(SimIpc, EmptyCacheWaitsForTheWorkerThatDropsReceivedMemory) {
  bytes_on_device(20 * kMiB);  // stays in the cache
  free_received_behind_a_slow_task();
  runtime().devices[0]->memory->empty_cache();
  EXPECT_LT(runtime().devices[0]->memory->reserved(), 20 * kMiB);
}

// Fails if the same happens when an allocation waits because the memory is full.
TEST_F(SimIpc, AllocationWaitsForTheWorkerThatDropsReceivedMemory) {
  bytes_on_device(40 * kMiB);  // stays in the cache, so the next one does not fit
  free_received_behind_a_slow_task();
  EXPECT_TRUE(bytes_on_device(50 * kMiB).defined());
}

// Fails if the addresses of received memory are not reused. A long-running receiver would run out
// of them.
TEST_F(SimIpc, AddressesAreReused) {
  const void* address = received().data_ptr();
  synchronize(stream());
  EXPECT_EQ(received().data_ptr(), address);
}

}  // namespace
}  // namespace anyaccel::backends::sim
