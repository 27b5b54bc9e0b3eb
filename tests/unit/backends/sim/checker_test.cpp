// Tests the checker with tensors, for cases that the programs in tests/sim_bugs do not cover.
#include "backends/sim/check/checker.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "anyaccel/sim.h"
#include "backends/sim/check/tensors.h"
#include "backends/sim/graph.h"
#include "backends/sim/kernels.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::backends::sim::checking {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

at::TensorOptions on(int index = 0) { return at::TensorOptions().device(runtime().device(index)); }
SimStream& stream(int id) { return *runtime().devices[0]->streams[id]; }

struct SimChecker : testing::Test {
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "LibTorch's threads are not instrumented";
#endif
    anyaccel::sim::install({.check = "report"});
  }
};

// Fails if an unknown mode is accepted. The program would then run unchecked.
TEST(SimCheckOptions, RejectUnknownModes) {
  EXPECT_ERROR(anyaccel::sim::install({.check = "yes"}), invalid_argument, "SIM_CHECK");
}

// Fails if SIM_CHECK does not enable checks in a program that installs the simulator with its own
// options.
TEST(SimCheckOptions, EnvironmentAppliesToProgramOptions) {
  const test::ScopedEnv variable("SIM_CHECK", "report");
  anyaccel::sim::install({.devices = 1});
  EXPECT_NE(observer(), nullptr);
}

// Fails if the report blames host code when a kernel dereferences a device address.
TEST(SimCheckOptions, KernelsThatUseDeviceAddressesAreNamed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        anyaccel::sim::install({.check = "report"});
        const auto tensor = at::ones({4}, on());
        auto* data = tensor.mutable_data_ptr<float>();
        launch_function(stream(0), "my_kernel", {}, [data] { *data = 1; });
        synchronize(stream(0));
      },
      "my_kernel on the default stream of sim:0 uses the tensor's address");
}

// Fails if a static tensor of two streams cannot be freed at exit.
TEST(SimCheckOptions, StaticTensorsAreFreedAtExit) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        static at::Tensor kept;
        anyaccel::sim::install({.check = "report"});
        kept = at::ones({4}, on());
        const c10::StreamGuard guard(to_torch(stream(1)));
        kept.add_(1);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

// Fails if ops are observed while checks are disabled. This would make every program slower.
TEST(SimCheckOptions, NothingIsObservedByDefault) {
  anyaccel::sim::install({});
  EXPECT_EQ(observer(), nullptr);
  EXPECT_EQ(checker(), nullptr);
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
}

// Fails if the simulator's internal wait on the first call of an op counts as a wait by the
// program. A bug would then be reported only on the second call.
TEST_F(SimChecker, InternalWaitsOrderNothing) {
  auto matrix = at::ones({16, 16}, on());
  {
    const c10::StreamGuard guard(to_torch(stream(1)));
    auto copy = at::empty({16, 16}, on());
    copy.copy_(matrix).flip({0}).matrix_exp();
  }
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(1));
}

// Fails if accesses to two halves of a tensor on two streams are reported, or overlapping accesses
// are not.
TEST_F(SimChecker, DisjointViewsDoNotConflict) {
  auto tensor = at::zeros({8, 8}, on());
  stream(0).device().synchronize();
  const auto use = [&](int id, const at::Tensor& part) {
    const c10::StreamGuard guard(to_torch(stream(id)));
    part.add_(1);
  };
  use(1, tensor.narrow(1, 0, 4));
  use(2, tensor.narrow(1, 4, 4));
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  use(3, tensor.narrow(1, 3, 2));
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(2));
  EXPECT_EQ(anyaccel::sim::problems()[0].shape, "float32 [8, 2]");
}

// Fails if ops that access different rows of a tensor on two streams are reported, as in a paged KV
// cache, or ops that access a common row are not.
TEST_F(SimChecker, DisjointRowsDoNotConflict) {
  auto cache = at::zeros({16, 4}, on());
  const auto rows = [](std::initializer_list<std::int64_t> values) {
    return at::tensor(values, at::kLong).to(on().device());
  };
  const auto first = rows({0, 3}), second = rows({1, 15}), third = rows({3, 5});
  const auto source = at::ones({2, 4}, on());
  const auto wide = first.unsqueeze(1).expand({2, 4}).contiguous();
  stream(0).device().synchronize();
  const auto on_stream = [](int id, const auto& work) {
    const c10::StreamGuard guard(to_torch(stream(id)));
    work();
  };
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second time, the shapes are known
    on_stream(1, [&] { cache.index_copy_(0, first, source); });
    on_stream(2, [&] { cache.index_copy_(0, second, source); });
  }
  on_stream(2, [&] { cache.index_put_({std::optional<at::Tensor>(rows({-1, 1}))}, source); });
  on_stream(3, [&] { (void)cache.index_select(0, rows({4, 6})); });
  on_stream(1, [&] { cache.scatter_(0, wide, source); });
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  on_stream(4, [&] { (void)cache.index_select(0, third); });  // row 3 is written on stream 1
  const auto of_row_3 = anyaccel::sim::problems().size();
  EXPECT_GT(of_row_3, 0U);
  on_stream(5, [&] { cache.narrow(0, 15, 1).add_(1); });  // row 15 is written on stream 2
  const auto of_row_15 = anyaccel::sim::problems().size();
  EXPECT_GT(of_row_15, of_row_3);
  on_stream(6, [&] { cache.narrow(0, 8, 2).add_(1); });
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(of_row_15));
}

// Fails if changing an index tensor after the launch changes which rows are compared.
TEST_F(SimChecker, RowsAreThoseOfTheLaunch) {
  auto cache = at::zeros({16, 4}, on());
  auto index = at::zeros({1}, on().dtype(at::kLong));
  const auto source = at::ones({1, 4}, on());
  stream(0).device().synchronize();
  {
    const c10::StreamGuard guard(to_torch(stream(1)));
    cache.index_copy_(0, index, source);
    index.fill_(9);
  }
  const c10::StreamGuard guard(to_torch(stream(2)));
  cache.narrow(0, 9, 1).add_(1);
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  cache.narrow(0, 0, 1).add_(1);
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(1));
}

// Fails if emptying a storage, which is how FSDP frees memory, hides that another stream still uses
// it.
TEST_F(SimChecker, EmptiedStorageIsFreed) {
  at::Tensor weight;
  {
    const c10::StreamGuard guard(to_torch(stream(1)));
    weight = at::ones({1024}, on());
  }
  stream(0).device().synchronize();
  (void)weight.add(1);  // on the default stream
  resize_storage(*weight.storage().unsafeGetStorageImpl(), 0);
  const c10::StreamGuard guard(to_torch(stream(1)));
  (void)at::ones({1024}, on());
  ASSERT_THAT(anyaccel::sim::problems(), SizeIs(1));
  EXPECT_EQ(anyaccel::sim::problems()[0].kind, "freed_in_use");
}

// Fails if a query that returns true does not count as a wait. Polling programs rely on this.
TEST_F(SimChecker, SuccessfulQueryCountsAsWait) {
  auto tensor = at::zeros({8}, on());
  while (!stream(0).idle()) {
  }
  EXPECT_TRUE(to_torch(stream(0)).query());
  const c10::StreamGuard guard(to_torch(stream(1)));
  tensor.add_(1);
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
}

// Fails if a custom kernel launched on a stream of the wrong device is not reported.
TEST_F(SimChecker, KernelOnTheWrongDeviceIsReported) {
  const auto tensor = at::ones({4}, on(1));
  const Operand operands[] = {operand(tensor, true)};
  launch_function(stream(0), "my_kernel", operands, [] {});
  const auto problems = anyaccel::sim::problems();
  ASSERT_THAT(problems, Not(IsEmpty()));
  EXPECT_EQ(problems[0].kind, "wrong_device");
  EXPECT_EQ(problems[0].op, "my_kernel");
  EXPECT_THAT(problems[0].message, HasSubstr("sim:1"));
}

/// Runs `work` once, captures it on the current stream, and replays the graph.
template <typename Work>
void capture_and_replay(const Work& work) {
  work();
  synchronize(current_stream(0));
  SimGraph graph;
  graph.capture_begin({0, 0});
  work();
  graph.capture_end();
  graph.replay();
  synchronize(current_stream(0));
}

// Fails if replaying a graph whose intermediate tensors share memory is reported.
TEST_F(SimChecker, GraphsMayReuseTheirMemory) {
  const auto x = at::ones({256}, on());
  auto out = at::zeros({256}, on());
  capture_and_replay([&] {
    auto a = x + 1, b = x + 2;
    a.reset();
    b.reset();
    auto c = at::cat({x, x});
    c.reset();
    const auto d = x + 3;
    out.copy_(d);
  });
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  EXPECT_EQ(out.cpu()[0].item<float>(), 4);
}

// Fails if random tensor sizes and lifetimes within a graph cause reports or wrong results.
TEST_F(SimChecker, GraphsMayReuseTheirMemoryAtRandom) {
  const auto x = at::ones({1024}, on());
  auto out = at::zeros({1024}, on());
  for (unsigned seed = 0; seed < 20; ++seed) {
    int steps = 0;
    capture_and_replay([&] {
      std::minstd_rand random(seed + 1);
      std::vector<at::Tensor> live;
      out.zero_();
      for (steps = 0; steps < 40; ++steps) {
        const auto length = static_cast<std::int64_t>(1 + random() % 1024);
        live.push_back(at::cat({x, x}).narrow(0, 0, length) + steps);
        if (random() % 3 != 0)
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(random() % live.size()));
      }
      for (const auto& each : live) out.narrow(0, 0, each.numel()).add_(each - each);
      out.add_(1);
    });
    EXPECT_EQ(out.sum().item<float>(), 1024) << seed;
  }
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
}

// Fails if an input that was freed after the capture is treated as the graph's own memory because
// other tensors of the graph reuse it.
TEST_F(SimChecker, FreedGraphInputIsReported) {
  auto out = at::zeros({256}, on());
  auto first = at::ones({256}, on()), second = at::ones({256}, on());
  SimGraph graph;
  at::add_out(out, first, second);
  synchronize(current_stream(0));
  graph.capture_begin({0, 0});
  at::add_out(out, first, second);
  graph.capture_end();
  first.reset();
  second.reset();
  const auto other = at::ones({512}, on());
  graph.replay();
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(1));
}

// Fails if an out-of-memory error that the program handles is reported as a problem, or leaves no
// note.
TEST(SimCheckMemory, HandledErrorIsANote) {
  anyaccel::sim::install({.memory = 64 << 20, .check = "abort"});
  auto large = at::ones({8 << 20}, on());
  EXPECT_THROW(at::ones({16 << 20}, on()), c10::OutOfMemoryError);
  large.reset();
  EXPECT_EQ(at::ones({14 << 20}, on()).numel(), 14 << 20);
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  ASSERT_THAT(anyaccel::sim::notes(), SizeIs(1));
  EXPECT_EQ(anyaccel::sim::notes()[0].kind, "memory_limit");
}

// Fails if an out-of-memory error that terminates the program is not reported. The error may be
// uncaught, or caught by a program that then exits with an error status.
TEST(SimCheckMemory, FatalErrorIsReported) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run_out = [] {
    anyaccel::sim::install({.memory = 64 << 20, .check = "report"});
    at::ones({32 << 20}, on());
  };
  const auto leave = [&](bool goes_on, int status) {
    try {
      run_out();
    } catch (const c10::OutOfMemoryError&) {
      if (goes_on) at::ones({4}, on());
    }
    std::exit(status);
  };
  using testing::ExitedWithCode;
  EXPECT_EXIT(leave(false, 3), ExitedWithCode(3), "\\(memory_limit\\)");
  EXPECT_EXIT(leave(true, 3), ExitedWithCode(3), "note: the program handled 1 error");
  EXPECT_EXIT(leave(false, 0), ExitedWithCode(0), "note: the program handled 1 error");
  EXPECT_EXIT([&]() noexcept { run_out(); }(), testing::KilledBySignal(SIGABRT),
              "\\(memory_limit\\)");
}

// Fails if an error other than a device error is reported, or prevents the report of a device
// error.
TEST_F(SimChecker, OtherErrorsAreNotReported) {
  const auto matrix = at::ones({2, 3}, on());
  EXPECT_ANY_THROW(at::mm(matrix, matrix));
  EXPECT_THAT(anyaccel::sim::problems(), IsEmpty());
  EXPECT_ANY_THROW(at::mm(matrix, at::ones({3, 2})));
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(1));
  EXPECT_ANY_THROW(at::mm(matrix, matrix));
  EXPECT_THAT(anyaccel::sim::problems(), SizeIs(1));
}

// Fails if a tensor's region ignores its offset or strides.
TEST(SimCheckTensors, RegionFollowsOffsetAndStrides) {
  const auto tensor = at::zeros({4, 6});
  const auto base = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  const auto part = tensor.narrow(0, 1, 2).narrow(1, 2, 3);
  const auto region = region_of(*part.unsafeGetTensorImpl());
  EXPECT_EQ(region.low, base + 8 * 4);
  EXPECT_EQ(region.high, base + 17 * 4);
  EXPECT_FALSE(region.dense);
  EXPECT_EQ(shape_text(region), "float32 [2, 3]");
  const auto turned = region_of(*tensor.t().unsafeGetTensorImpl());
  EXPECT_TRUE(turned.dense);
  EXPECT_EQ(turned.high - turned.low, 96U);
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
