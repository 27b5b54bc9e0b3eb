#include "backends/cpu/backend.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "backends/cpu/traits.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::backends::cpu {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::vector<CpuDevice> two_nodes() {
  return {{.numa_node = 0, .cores = 3, .memory_nodes = {}},
          {.numa_node = 8, .cores = 5, .memory_nodes = {}}};
}

class CpuAccelerator : public testing::Test {
 protected:
  Accelerator accelerator{std::make_shared<CpuBackend>(two_nodes())};
};

// Fails if the backend is not registered, or is not the fallback.
TEST(CpuRegistration, IsChosenByName) {
  ::setenv("DS_ACCELERATOR", "cpu", 1);
  ::setenv("ANYACCEL_CCL", "off", 1);
  auto names = registered_backends();
  if (names.back() == "sim") names.pop_back();  // sim is selected only by name
  EXPECT_EQ(names.back(), "cpu");
  EXPECT_EQ(get_accelerator().name(), "cpu");
  EXPECT_EQ(get_accelerator().communication_backend_name(), "gloo");
  EXPECT_GE(get_accelerator().device_count(), 1);
  EXPECT_TRUE(get_accelerator().is_synchronized_device());
  EXPECT_TRUE(get_accelerator().visible_devices_envs().empty());
}

// Fails if LOCAL_RANK does not select the initial device, or an invalid rank does not select device
// 0.
TEST(CpuLocalRank, SelectsTheInitialDevice) {
  for (const auto& [rank, expected] :
       {std::pair{"1", 1}, {"0", 0}, {"2", 0}, {"-1", 0}, {"x", 0}}) {
    ::setenv("LOCAL_RANK", rank, 1);
    const Accelerator accelerator(std::make_shared<CpuBackend>(two_nodes()));
    EXPECT_EQ(accelerator.current_device(), expected) << rank;
    DeviceIndex elsewhere = -1;
    std::thread([&] { elsewhere = accelerator.current_device(); }).join();
    EXPECT_EQ(elsewhere, expected) << rank;
  }
}

// Fails if the current index is shared between threads or passed to torch, which has only one CPU
// device.
TEST_F(CpuAccelerator, CurrentDeviceIsPerThread) {
  EXPECT_EQ(accelerator.device_count(), 2);
  accelerator.set_device(1);
  EXPECT_EQ(accelerator.current_device(), 1);
  EXPECT_EQ(accelerator.current_device_name(), "cpu");
  EXPECT_EQ(accelerator.device_name(1), "cpu");
  EXPECT_EQ(accelerator.torch_device(1), c10::Device(c10::kCPU));
  EXPECT_EQ(accelerator.torch_device(1).index(), -1);
  DeviceIndex elsewhere = -1;
  std::thread([&] { elsewhere = accelerator.current_device(); }).join();
  EXPECT_EQ(elsewhere, 0);
  accelerator.set_device(2);  // without indexed names, an out-of-range index means device 0
  EXPECT_EQ(accelerator.current_device(), 0);
  accelerator.set_device(1);
  {
    const auto guard = accelerator.device(0);
    EXPECT_EQ(accelerator.current_device(), 0);
  }
  EXPECT_EQ(accelerator.current_device(), 1);
  accelerator.set_device(0);
}

// Fails if a backend uses the index that a thread has set with a backend of more devices, although
// the index is out of range for this backend.
TEST(CpuBackendTest, StaleDeviceIndexIsDiscarded) {
  CpuBackend two(two_nodes());
  two.set_device(1);
  CpuBackend one({CpuDevice{}});
  EXPECT_EQ(one.current_device(), 0);
  two.set_device(0);
}

// Fails if two new streams are equal, or a guard does not restore the previous stream.
TEST_F(CpuAccelerator, StreamsAreDistinct) {
  const auto first = accelerator.Stream();
  const auto second = accelerator.Stream(1);
  EXPECT_NE(first.id(), second.id());
  EXPECT_FALSE(first == accelerator.default_stream());
  EXPECT_EQ(second.device_index(), 1);
  EXPECT_TRUE(accelerator.current_stream() == accelerator.default_stream());
  {
    const auto guard = accelerator.stream(second);
    EXPECT_EQ(accelerator.current_device(), 1);
    EXPECT_TRUE(accelerator.current_stream() == second);
    EXPECT_TRUE(accelerator.current_stream(0) == accelerator.default_stream(0));
    bool fresh = false;
    std::thread([&] {
      fresh = accelerator.current_stream(1) == accelerator.default_stream(1);
    }).join();
    EXPECT_TRUE(fresh) << "the current stream is per thread";
  }
  EXPECT_EQ(accelerator.current_device(), 0);
  EXPECT_TRUE(accelerator.current_stream(1) == accelerator.default_stream(1));
  EXPECT_TRUE(first.query());
  first.synchronize();
  EXPECT_EQ(first.unwrap().device(), c10::Device(c10::kCPU));
  // Streams of nonexistent devices are rejected.
  EXPECT_THROW(accelerator.set_stream(Stream(first.unwrap(), 7)), Error);
}

// Fails if devices with high indices do not have separate current streams.
TEST(CpuBackendTest, EveryDeviceHasItsOwnStream) {
  CpuBackend backend(std::vector<CpuDevice>(40));
  const auto low = backend.new_stream(3, 0);
  const auto high = backend.new_stream(39, 0);
  backend.set_stream(low);
  backend.set_stream(high);
  EXPECT_TRUE(backend.current_stream(3) == low);
  EXPECT_TRUE(backend.current_stream(39) == high);
  EXPECT_TRUE(backend.current_stream(38) == backend.default_stream(38));
}

// Fails if elapsed_time() does not measure the time between two events.
TEST_F(CpuAccelerator, EventsMeasureTime) {
  auto begin = accelerator.Event(true);
  auto end = accelerator.Event(true);
  EXPECT_THROW(begin.elapsed_time(end), Error);
  const auto since = [](auto from) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from)
        .count();
  };
  const auto before = std::chrono::steady_clock::now();
  begin.record(accelerator.current_stream());
  const auto from = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto slept = since(from);
  end.record(accelerator.current_stream());
  const auto around = since(before);
  EXPECT_GE(begin.elapsed_time(end), slept);
  EXPECT_LE(begin.elapsed_time(end), around + 0.001);  // tolerance for float precision
  EXPECT_LT(end.elapsed_time(begin), 0);
  EXPECT_TRUE(end.query());
  end.synchronize();
  end.wait(accelerator.Stream());
}

// Fails if memory_allocated() counts anything but tensor bytes.
TEST_F(CpuAccelerator, CountsTensorBytes) {
  const auto base = accelerator.memory_allocated();
  accelerator.reset_peak_memory_stats();
  {
    const auto tensor = at::empty({1 << 20}, at::kByte);
    EXPECT_EQ(accelerator.memory_allocated(), base + 1048576);
    EXPECT_EQ(accelerator.memory_stats().at("allocated_bytes.all.current"), base + 1048576);
    EXPECT_EQ(accelerator.allocator_stats().allocated_bytes.current, base + 1048576);
  }
  EXPECT_EQ(accelerator.memory_allocated(), base);
  EXPECT_EQ(accelerator.max_memory_allocated(), base + 1048576);
  accelerator.reset_max_memory_allocated();
  EXPECT_EQ(accelerator.max_memory_allocated(), base);
}

// Fails if a torchrun rank whose LOCAL_RANK exceeds the device count cannot use the accelerator.
// DeepSpeed allows this.
TEST(CpuLocalRank, MayExceedTheDeviceCount) {
  Accelerator accelerator(std::make_shared<CpuBackend>(
      std::vector<CpuDevice>{{.numa_node = 0, .cores = 3, .memory_nodes = {}}}));
  accelerator.set_device(1);
  EXPECT_EQ(accelerator.current_device(), 0);
  EXPECT_EQ(accelerator.device_name(1), "cpu");
  EXPECT_GT(accelerator.total_memory(1), 0);
  EXPECT_GE(accelerator.memory_allocated(1), 0);
}

// Fails if ANYACCEL_CPU_MEMORY=rss does not switch memory queries from tensor bytes to the resident
// set size.
TEST(CpuMemory, ReportsProcessMemoryOnRequest) {
  const test::ScopedEnv variable("ANYACCEL_CPU_MEMORY", "rss");
  Accelerator accelerator(std::make_shared<CpuBackend>(two_nodes()));
  const auto near_rss = [&](std::int64_t bytes) {
    EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(accelerator.get_rss()), 8 << 20);
  };
  near_rss(accelerator.memory_allocated());
  near_rss(accelerator.memory_reserved(1));
  near_rss(accelerator.memory_cached());
  near_rss(accelerator.memory_stats().at("allocated_bytes.all.current"));
  near_rss(accelerator.memory_stats().at("reserved_bytes.all.current"));
  const auto before = accelerator.memory_allocated();
  {
    const auto tensor = at::zeros({64 << 20}, at::kByte).add_(1);
    EXPECT_GT(accelerator.memory_allocated(), before + (48 << 20));
  }
  for (const auto peak :
       {accelerator.max_memory_allocated(), accelerator.max_memory_reserved(),
        accelerator.max_memory_cached(), accelerator.memory_stats().at("allocated_bytes.all.peak")})
    EXPECT_GT(peak, before + (48 << 20));
  accelerator.reset_peak_memory_stats();
  near_rss(accelerator.max_memory_allocated());
  EXPECT_GE(accelerator.max_memory_allocated(), accelerator.memory_allocated() - (1 << 20));
}

// Fails if the peak cannot be reset in a container that forbids resetting the peak recorded by the
// kernel.
TEST(CpuMemory, PeakResetsWithoutSystemSupport) {
  const auto large = [] { return at::zeros({64 << 20}, at::kByte).add_(1); };
  ProcessMemory memory([]() noexcept { return false; });
  large();
  memory.reset_peak();
  const auto before = memory.read();
  EXPECT_LT(before.peak, before.current + (8 << 20));
  {
    const auto tensor = large();
    EXPECT_GT(memory.read().peak, before.current + (48 << 20));
  }
  EXPECT_GT(memory.read().peak, before.current + (48 << 20));
}

// Fails if a misspelled value of ANYACCEL_CPU_MEMORY is accepted.
TEST(CpuMemory, RejectsUnknownSettings) {
  const test::ScopedEnv variable("ANYACCEL_CPU_MEMORY", "RSS\n");
  EXPECT_ERROR(
      CpuBackend(two_nodes()), invalid_argument,
      "[ANYACCEL_CPU_MEMORY] unknown memory counting mode; got \"RSS\\n\", want tensors or rss");
}

// Fails if free memory exceeds total memory, or total_memory() differs from memory_info().
TEST_F(CpuAccelerator, MemoryIsPlausible) {
  const auto info = accelerator.memory_info(1);
  EXPECT_GT(info.free, 1 << 24);
  EXPECT_LE(info.free, info.total);
  EXPECT_EQ(accelerator.total_memory(), info.total);
}

// Fails if a device reports the properties of another device.
TEST_F(CpuAccelerator, DescribesItsDevices) {
  const auto properties = accelerator.device_properties(1);
  EXPECT_EQ(properties.numa_node, 8);
  EXPECT_EQ(properties.multi_processor_count, 5);
  EXPECT_FALSE(properties.name.empty());
  EXPECT_EQ(properties.total_memory, accelerator.total_memory(1));
  EXPECT_THROW(accelerator.compute_capability(), Error);
}

// Fails if a device has a separate generator, which torch.manual_seed() would not seed.
TEST_F(CpuAccelerator, UsesTheHostGenerator) {
  EXPECT_EQ(accelerator.default_generator(1), at::detail::getDefaultCPUGenerator());
  accelerator.manual_seed(7);
  EXPECT_EQ(accelerator.initial_seed(), 7u);
  const auto state = accelerator.get_rng_state();
  const auto a = at::empty({8}, at::kFloat).uniform_();
  accelerator.set_rng_state(state, 1);
  EXPECT_TRUE(a.equal(at::empty({8}, at::kFloat).uniform_()));
}

// Fails if the accelerator does not use the backend's graphs. Replay would then have no effect.
TEST_F(CpuAccelerator, CapturesAndReplays) {
  auto graph = accelerator.create_graph();
  auto total = at::empty({4}, at::kFloat).fill_(1);
  {
    auto capture = accelerator.capture_to_graph(graph);
    EXPECT_TRUE(accelerator.is_current_stream_capturing());
    total.mul_(3);
    capture.end();
  }
  EXPECT_FALSE(accelerator.is_current_stream_capturing());
  total.fill_(1);
  accelerator.replay_graph(graph);
  accelerator.replay_graph(graph);
  EXPECT_EQ(total[0].item<float>(), 9.0f);
}

// Fails if the bf16 or fp16 flags do not match this CPU.
TEST_F(CpuAccelerator, ReportsSupportedDtypes) {
  EXPECT_TRUE(accelerator.is_bf16_supported());
  EXPECT_TRUE(accelerator.is_fp64_supported());
  EXPECT_EQ(accelerator.is_fp16_supported(), accelerator.dtype_support(c10::ScalarType::Half).fast);
  EXPECT_THAT(accelerator.supported_dtypes(), Contains(c10::ScalarType::BFloat16));
}

// Fails if a query hangs or fails in a forked child, such as a data loader worker.
TEST_F(CpuAccelerator, WorksAfterFork) {
  const auto tensor = at::empty({1000}, at::kByte);
  const auto base = accelerator.memory_allocated();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good = accelerator.memory_allocated() == base && accelerator.device_count() == 2 &&
                      accelerator.current_device() == 0 && accelerator.total_memory() > 0 &&
                      accelerator.get_rss() > 0;
    auto event = accelerator.Event(true);
    event.record(accelerator.current_stream());
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Fails if names or flags differ from those of DeepSpeed's CPU accelerator.
TEST(CpuTraits, MatchDeepSpeed) {
  EXPECT_EQ(traits().class_name, "CPU_Accelerator");
  EXPECT_EQ(traits().op_builder_dir, "deepspeed.ops.op_builder.cpu");
  EXPECT_FALSE(traits().indexed_names);
  EXPECT_TRUE(traits().resolves_data_dependency && traits().handles_memory_backpressure &&
              traits().use_host_timers);
}

}  // namespace
}  // namespace anyaccel::backends::cpu
