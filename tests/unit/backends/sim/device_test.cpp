// Tests the simulated device without the Accelerator class: memory, streams, events, random
// numbers, pinned memory, graphs and faults. Each test runs in its own process.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/item.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "anyaccel/sim.h"
#include "backends/sim/allocator.h"
#include "backends/sim/graph.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/pinned.h"
#include "backends/sim/runtime.h"
#include "unit/support/expect_error.h"

namespace anyaccel::backends::sim {
namespace {

using testing::HasSubstr;

at::TensorOptions on(int index, c10::ScalarType dtype = c10::kFloat) {
  return at::TensorOptions().dtype(dtype).device(runtime().device(index));
}

/// Blocks a stream until open() is called.
class Gate {
 public:
  explicit Gate(SimStream& stream) {
    launch_function(stream, "gate", {}, [open = open_] {
      while (!open->load()) std::this_thread::yield();
    });
  }
  ~Gate() { open(); }
  void open() { *open_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

SimStream& stream(int device, int id) { return *runtime().devices[device]->streams[id]; }

// Fails if the host can read device memory, or an address does not identify its device.
TEST(SimMemory, HostCannotAccessIt) {
  anyaccel::sim::install({});
  const auto first = at::zeros({4}, on(0));
  const auto second = at::zeros({4}, on(1));
  EXPECT_EQ(memory_map.device_of(first.data_ptr()), 0);
  EXPECT_EQ(memory_map.device_of(second.data_ptr()), 1);
  EXPECT_EQ(memory_map.device_of(&first), -1);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        anyaccel::sim::install({});
        const auto tensor = at::zeros({4}, on(0));
        std::_Exit(static_cast<int>(*tensor.const_data_ptr<float>()));
      },
      // The address sanitizer turns the signal into exit status 1. A successful read would give
      // status 0.
      [](int status) {
        return (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) ||
               (WIFEXITED(status) && WEXITSTATUS(status) == 1);
      },
      "");
}

// Fails if statistics do not match the allocations, or resetting a peak does not set it to the
// current value.
TEST(SimMemory, StatisticsMatchAllocations) {
  anyaccel::sim::install({.memory = 64 << 20});
  auto& memory = *runtime().devices[1]->memory;
  {
    const auto tensor = at::empty({1 << 20}, on(1));  // 4 MiB
    const auto stats = memory.stats();
    EXPECT_EQ(stats.allocated_bytes[0].current, 4 << 20);
    EXPECT_EQ(stats.requested_bytes[0].current, 4 << 20);
    EXPECT_EQ(stats.reserved_bytes[0].current, 20 << 20);
    EXPECT_EQ(stats.allocation[0].current, 1);
  }
  EXPECT_EQ(memory.stats().allocated_bytes[0].current, 0);
  EXPECT_EQ(memory.stats().allocated_bytes[0].peak, 4 << 20);
  memory.reset_peak_stats();
  EXPECT_EQ(memory.stats().allocated_bytes[0].peak, 0);
  EXPECT_EQ(allocator().getMemoryInfo(1),
            (std::pair<std::size_t, std::size_t>{44 << 20, 64 << 20}));
  memory.empty_cache();
  EXPECT_EQ(memory.stats().reserved_bytes[0].current, 0);
  EXPECT_EQ(runtime().devices[0]->memory->stats().allocated_bytes[0].peak, 0);
}

// Fails if the memory limit is ignored, or cached memory is not released before an allocation
// fails.
TEST(SimMemory, CacheIsReleasedBeforeOutOfMemory) {
  anyaccel::sim::install({.memory = 64 << 20});
  { const auto cached = at::empty({40 << 20}, on(0, c10::kByte)); }
  const auto kept = at::empty({50 << 20}, on(0, c10::kByte));
  try {
    at::empty({30 << 20}, on(0, c10::kByte));
    ADD_FAILURE() << "another 30 MiB must not fit";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tried to allocate 30.00 MiB"));
  }
  const auto stats = runtime().devices[0]->memory->stats();
  EXPECT_EQ(stats.num_ooms, 1);
  EXPECT_EQ(stats.num_alloc_retries, 2);
  EXPECT_EQ(at::full({3}, 2.0, on(0)).sum().item<float>(), 6);
}

// Fails if freed memory is not immediately reusable on its stream, or is reused although
// record_stream() protects it.
TEST(SimMemory, IsReusedInStreamOrder) {
  anyaccel::sim::install({});
  void* address = nullptr;
  { address = at::empty({100}, on(0)).mutable_data_ptr(); }
  auto tensor = at::empty({100}, on(0));
  EXPECT_EQ(tensor.data_ptr(), address);
  auto& other = stream(0, 1);
  Gate gate(other);
  tensor.record_stream(to_torch(other));
  tensor.reset();
  EXPECT_NE(at::empty({100}, on(0)).data_ptr(), address);
  gate.open();
  other.wait(other.last());
  EXPECT_EQ(at::empty({100}, on(0)).data_ptr(), address);
}

// Fails if a launch blocks the host, or a stream waits for another stream without an event.
TEST(SimStreams, AreIndependentQueues) {
  anyaccel::sim::install({});
  auto tensor = at::zeros({4}, on(0));
  synchronize(stream(0, 0));
  Gate gate(stream(0, 0));
  tensor.add_(1);
  EXPECT_FALSE(stream(0, 0).idle());
  const c10::StreamGuard guard(to_torch(stream(0, 1)));
  EXPECT_EQ(at::full({2}, 3.0, on(0)).sum().item<float>(), 6);
  EXPECT_FALSE(stream(0, 0).idle());
  gate.open();
  synchronize(stream(0, 0));
  EXPECT_EQ(tensor.sum().item<float>(), 4);
}

// Fails if an event does not order two streams, or the elapsed time does not cover the work between
// events.
TEST(SimEvents, OrderStreamsAndMeasure) {
  anyaccel::sim::install({});
  const auto first = to_torch(stream(0, 1)), second = to_torch(stream(0, 2));
  auto tensor = at::zeros({1}, on(0));
  synchronize(stream(0, 0));
  Gate gate(stream(0, 1));
  c10::Event start(runtime().type, c10::EventFlag::BACKEND_DEFAULT),
      end(runtime().type, c10::EventFlag::BACKEND_DEFAULT);
  start.record(first);
  launch_function(stream(0, 1), "sleep", {},
                  [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  {
    const c10::StreamGuard guard(first);
    tensor.add_(5);
  }
  end.record(first);
  EXPECT_FALSE(end.query());
  end.block(second);
  gate.open();
  const c10::StreamGuard guard(second);
  EXPECT_EQ(tensor.item<float>(), 5);
  EXPECT_TRUE(end.query());
  end.synchronize();
  EXPECT_GE(start.elapsedTime(end), 20);
  EXPECT_LT(start.elapsedTime(end), 20000);
}

// Fails if kernels on a high-priority stream wait for those on a normal one.
TEST(SimStreams, HighPriorityRunsFirst) {
  anyaccel::sim::install({});
  auto& normal = stream(0, 1);
  auto& urgent = stream(0, 1 + Device::kPooled);
  EXPECT_EQ(urgent.priority(), -1);
  std::atomic<int> done{0};
  int urgent_place = 0, normal_place = 0;
  {
    Gate gate(normal);
    launch_function(normal, "normal", {}, [&] { normal_place = ++done; });
    launch_function(urgent, "slow", {},
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
    launch_function(urgent, "urgent", {}, [&] { urgent_place = ++done; });
  }
  normal.wait(normal.last());
  urgent.wait(urgent.last());
  EXPECT_EQ(urgent_place, 1);
  EXPECT_EQ(normal_place, 2);
}

// Fails if random numbers depend on anything but the seed and offset, or devices share a generator.
TEST(SimRandom, DependsOnSeedAndOffset) {
  anyaccel::sim::install({});
  auto generator = default_generator(0);
  generator.set_current_seed(3);
  const auto state = generator.get_state();
  EXPECT_EQ(state.numel(), 16);
  const auto a = at::rand({8}, on(0)).cpu();
  const auto other = default_generator(1).get_state();
  const auto b = at::rand({8}, on(0)).cpu();
  EXPECT_FALSE(a.equal(b));
  EXPECT_EQ(generator.get_offset(), 2u);
  EXPECT_TRUE(default_generator(1).get_state().equal(other));
  generator.set_state(state);
  EXPECT_TRUE(at::rand({8}, on(0)).cpu().equal(a));
  auto second = default_generator(1);
  second.set_current_seed(3);
  EXPECT_TRUE(at::rand({8}, on(1)).cpu().equal(a));
}

// Fails if a copy from pinned memory blocks, or the memory is reused while the copy is queued.
TEST(SimPinned, CopiesAreAsynchronous) {
  anyaccel::sim::install({});
  auto host = at::ones({1024}).pin_memory(runtime().device(0));
  EXPECT_TRUE(host.is_pinned(runtime().device(0)));
  EXPECT_FALSE(at::ones({4}).is_pinned(runtime().device(0)));
  auto tensor = at::zeros({1024}, on(0));
  synchronize(stream(0, 0));
  auto& queue = stream(0, 0);
  Gate gate(queue);
  tensor.copy_(host, /*non_blocking=*/true);
  EXPECT_FALSE(queue.idle());
  const void* address = host.const_data_ptr();
  host.reset();
  const auto other = at::empty({1024}).pin_memory(runtime().device(0));
  EXPECT_NE(other.const_data_ptr(), address);
  gate.open();
  EXPECT_EQ(tensor.sum().item<float>(), 1024);
  EXPECT_EQ(at::empty({1024}).pin_memory(runtime().device(0)).const_data_ptr(), address);
}

// Fails if a graph runs during capture, or a replay uses old inputs or repeats random numbers.
TEST(SimGraphs, ReplayUsesCurrentInputs) {
  anyaccel::sim::install({});
  const c10::StreamGuard guard(to_torch(stream(0, 1)));
  auto in = at::zeros({4}, on(0));
  auto out = at::zeros({4}, on(0));
  auto noise = at::zeros({4}, on(0));
  SimGraph graph;
  graph.capture_begin({0, 0});
  out.copy_(in.mul(2).add(1));
  noise.uniform_();
  EXPECT_THROW(out.sum().item<float>(), c10::Error);
  graph.capture_end();
  EXPECT_EQ(out.sum().item<float>(), 0);
  in.fill_(3);
  graph.replay();
  EXPECT_EQ(out.sum().item<float>(), 28);
  const auto first = noise.cpu();
  graph.replay();
  EXPECT_FALSE(noise.cpu().equal(first));
  const auto reserved = runtime().devices[0]->memory->reserved();
  graph.reset();
  EXPECT_LT(runtime().devices[0]->memory->reserved(), reserved);
}

// Fails if the next wait does not report a failed kernel, or the device is unusable afterwards.
TEST(SimFaults, KernelErrorSurfacesAtTheNextWait) {
  anyaccel::sim::install({.faults = "kernel=fill_@2"});
  auto tensor = at::empty({4}, on(0)).fill_(1);
  tensor.fill_(2);
  try {
    runtime().devices[0]->synchronize();
    ADD_FAILURE() << "the second fill_ must fail";
  } catch (const c10::AcceleratorError& error) {
    EXPECT_THAT(error.what(), HasSubstr("aten::fill_"));
  }
  EXPECT_EQ(tensor.fill_(3).sum().item<float>(), 12);
}

// Fails if an injected allocation failure leaks memory, or makes later allocations fail.
TEST(SimFaults, AllocationFailsOnce) {
  anyaccel::sim::install({.faults = "alloc@2"});
  const auto first = at::empty({4}, on(0));
  EXPECT_THROW(at::empty({4}, on(0)), c10::OutOfMemoryError);
  EXPECT_EQ(runtime().devices[0]->memory->stats().allocation[0].current, 1);
  EXPECT_NO_THROW(at::empty({4}, on(0)));
}

// Fails if a lost device accepts work again, or affects another device.
TEST(SimFaults, LostDeviceStaysLost) {
  anyaccel::sim::install({.faults = "lost@3/0"});
  auto tensor = at::ones({4}, on(0));
  auto other = at::ones({4}, on(1));
  tensor.add_(1);
  EXPECT_THROW(
      {
        tensor.add_(1);
        tensor.add_(1);
        runtime().devices[0]->synchronize();
      },
      c10::AcceleratorError);
  EXPECT_THROW(tensor.sum().item<float>(), c10::AcceleratorError);
  EXPECT_THROW(at::empty({4}, on(0)), c10::AcceleratorError);
  EXPECT_EQ(other.add_(1).sum().item<float>(), 8);
}

// Fails if the kernels of a slow stream are not delayed, or launching them blocks.
TEST(SimFaults, SlowStreamDoesNotDelayLaunches) {
  anyaccel::sim::install({.faults = "slow=50ms@2"});
  Gate gate(stream(0, 0));  // launches must not wait for the gate
  launch_function(stream(0, 0), "work", {}, [] {});
  const auto start = std::chrono::steady_clock::now();
  gate.open();
  runtime().devices[0]->synchronize();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
}

// Fails if options can change after the simulator is installed.
TEST(SimInstall, OptionsCannotChange) {
  anyaccel::sim::install({.devices = 3});
  EXPECT_TRUE(anyaccel::sim::installed());
  EXPECT_NO_THROW(anyaccel::sim::install({.devices = 3}));
  EXPECT_ERROR(anyaccel::sim::install({.devices = 4}), invalid_state, "different options");
  EXPECT_EQ(runtime().devices.size(), 3u);
}

// Fails if the simulator can replace a device type that torch implements itself.
TEST(SimInstall, RejectsTypesThatTorchImplements) {
  EXPECT_ERROR(anyaccel::sim::install({.stands_in_for = "cpu"}), unavailable, "already");
}

}  // namespace
}  // namespace anyaccel::backends::sim
