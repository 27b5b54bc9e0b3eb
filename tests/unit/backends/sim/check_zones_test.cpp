// Tests the detection of kernels that write outside of their tensors' memory.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "anyaccel/sim.h"
#include "backends/sim/allocator.h"
#include "backends/sim/graph.h"
#include "backends/sim/kernels.h"

namespace anyaccel::backends::sim::checking {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

at::TensorOptions on(int index = 0) { return at::TensorOptions().device(runtime().device(index)); }

SimStream& stream(int id) { return *runtime().devices[0]->streams[id]; }

struct SimCheckZones : testing::Test {
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "LibTorch's threads are not instrumented";
#endif
    anyaccel::sim::install({.check = "report"});
  }
};

/// Defines the op zone_test::fill(x, first, count), whose CPU kernel writes elements [first, first
/// + count) of a float32 tensor without checking its size.
void define_fill() {
  static auto* library =
      new torch::Library(torch::Library::DEF, "zone_test", std::nullopt, __FILE__, __LINE__);
  library->def("fill(Tensor(a!) x, int first, int count) -> ()");
  library->impl(
      "fill", c10::DispatchKey::CPU,
      +[](const at::Tensor& x, std::int64_t first, std::int64_t count) {
        std::fill_n(x.mutable_data_ptr<float>() + first, count, 0.0F);
      });
}

void fill(const at::Tensor& x, std::int64_t first, std::int64_t count) {
  c10::Dispatcher::singleton()
      .findSchemaOrThrow("zone_test::fill", "")
      .typed<void(const at::Tensor&, std::int64_t, std::int64_t)>()
      .call(x, first, count);
}

// Fails if an op's kernel that writes past either end of its tensor's memory is not reported, or a
// kernel that writes exactly its tensor is. The sizes are a fraction of the allocator's unit, the
// unit itself, and a large block.
TEST_F(SimCheckZones, OpsThatWriteOutOfBoundsAreReported) {
  define_fill();
  for (const std::int64_t size : {10, 128, 1 << 19}) {
    SCOPED_TRACE(size);
    const auto tensor = at::ones({size}, on()), other = at::ones({size}, on());
    fill(tensor, 0, size);
    fill(tensor.narrow(0, 1, 9), 0, 9);
    EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
    fill(tensor, size, 1);
    ASSERT_THAT(anyaccel::sim::problems(), SizeIs(1));
    const auto first = anyaccel::sim::problems()[0];
    anyaccel::sim::reset({.check = "report"});  // reports on the same line count as one
    fill(tensor, -2, 1);
    ASSERT_THAT(anyaccel::sim::problems(), SizeIs(1));
    const auto second = anyaccel::sim::problems()[0];
    EXPECT_EQ(first.kind, "out_of_bounds");
    EXPECT_EQ(first.op, "zone_test::fill");
    EXPECT_EQ(first.shape, "float32 [" + std::to_string(size) + "]");
    EXPECT_THAT(first.what,
                HasSubstr("writes 4 bytes outside of a tensor's memory (" +
                          std::to_string(4 * size) + " bytes), from 0 bytes after the end"));
    EXPECT_THAT(second.what, HasSubstr("writes 4 bytes")) << second.what;
    EXPECT_THAT(second.what, HasSubstr("from 8 bytes before the start"));
    EXPECT_TRUE(other.eq(1).all().item<bool>());  // the neighbor is unchanged
    anyaccel::sim::reset({.check = "report"});
  }
}

// Fails if a kernel that a program launches itself is not checked on its stream, or not in a graph.
TEST_F(SimCheckZones, LaunchedKernelsThatWriteOutOfBoundsAreReported) {
  const auto tensor = at::ones({4}, on());
  auto* data = sim::alias(tensor).mutable_data_ptr<float>();
  const auto run = [&](SimStream& target, std::int64_t first) {
    launch_function(target, "my_kernel", {operand(tensor, true)}, [=] { data[first] = 0; });
  };
  synchronize(stream(0));
  run(stream(0), 3);
  synchronize(stream(0));
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  run(stream(0), 4);
  synchronize(stream(0));
  ASSERT_THAT(anyaccel::sim::problems(), SizeIs(1));
  EXPECT_EQ(anyaccel::sim::problems()[0].op, "my_kernel");
  EXPECT_EQ(anyaccel::sim::problems()[0].stream, "the default stream of sim:0");
  anyaccel::sim::reset({.check = "report"});
  SimGraph graph;
  const c10::StreamGuard guard(to_torch(stream(1)));
  graph.capture_begin({});
  run(stream(1), -1);
  graph.capture_end();
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  graph.replay();
  synchronize(stream(1));
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(1));
}

// Fails if the checker's zones change what a program sees of the allocator: the memory that fits,
// and the statistics.
TEST_F(SimCheckZones, ZonesDoNotCountAsMemory) {
  auto& memory = *runtime().devices[0]->memory;
  memory.set_limit(64 << 20);
  std::vector<at::Tensor> all;
  for (int i = 0; i < 4; ++i) all.push_back(at::empty({4 << 20}, on()));  // 16 MiB each
  EXPECT_THROW(at::empty({1}, on()), c10::OutOfMemoryError);
  all.clear();
  memory.empty_cache();
  for (int i = 0; i < 4096; ++i) all.push_back(at::empty({128}, on()));  // 512 bytes each
  EXPECT_EQ(memory.stats().allocated_bytes[0].current, 2 << 20);
  EXPECT_EQ(memory.reserved(), 2 << 20);
  for (std::size_t i = 1; i < all.size(); ++i)
    EXPECT_EQ(static_cast<char*>(all[i].data_ptr()) - static_cast<char*>(all[i - 1].data_ptr()),
              1024);
  all.clear();
  all.push_back(at::empty({512, 1024}, on()));  // the freed blocks are merged again
  EXPECT_EQ(memory.stats().allocated_bytes[0].current, 2 << 20);
  all.clear();
  memory.empty_cache();
  EXPECT_EQ(memory.reserved(), 0);
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
