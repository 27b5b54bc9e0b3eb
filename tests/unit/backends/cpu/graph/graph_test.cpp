#include "backends/cpu/graph/graph.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <functional>
#include <future>
#include <string>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"

namespace anyaccel::backends::cpu {
namespace {

using at::Tensor;

std::shared_ptr<sdk::GraphImpl> capture(const std::function<void()>& work) {
  auto graph = make_cpu_graph();
  graph->capture_begin(std::nullopt);
  work();
  graph->capture_end();
  return graph;
}

// Returns the message of the `unsupported` error that `work` throws.
std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// Fails if replay does not recompute its outputs from the current inputs, in the same memory.
TEST(CpuGraph, ReplayUsesCurrentInputs) {
  const auto x = at::randn({8, 8}), w = at::randn({8, 8});
  Tensor y;
  const auto graph = capture([&] { y = at::mm(x, w).relu_().add(1.5).t().contiguous(); });
  const void* address = y.data_ptr();
  for (int i = 0; i < 3; ++i) {
    x.copy_(at::randn({8, 8}));
    graph->replay();
    EXPECT_TRUE(y.equal(at::mm(x, w).relu_().add(1.5).t().contiguous()));
  }
  EXPECT_EQ(y.data_ptr(), address);
}

// Fails if an op whose result the host reads can be captured, or the error does not name the op.
TEST(CpuGraph, RejectsOpsWhoseResultTheHostReads) {
  const auto x = at::ones({4});
  const std::pair<const char*, std::function<void()>> cases[] = {
      {"aten::_local_scalar_dense", [&] { x.sum().item<float>(); }},
      {"aten::nonzero", [&] { x.nonzero(); }},
      {"aten::masked_select", [&] { x.masked_select(x > 0); }},
      {"aten::index.Tensor", [&] { x.index({x > 0}); }},
      {"aten::equal", [&] { static_cast<void>(x.equal(x)); }},
      {"aten::to_sparse", [&] { x.to_sparse().add(1); }},
  };
  for (const auto& [name, work] : cases) {
    auto graph = make_cpu_graph();
    graph->capture_begin(std::nullopt);
    EXPECT_NE(error_of(work).find(std::string(name).substr(6)), std::string::npos) << name;
    EXPECT_NE(error_of([&] { graph->capture_end(); }).find("cannot be captured"),
              std::string::npos);
    EXPECT_FALSE(is_cpu_capturing());
  }
}

// Fails if a rejected capture has side effects. The rest of the scope must run, the graph must be
// empty, and the next capture must work.
TEST(CpuGraph, IsUsableAfterARejectedCapture) {
  const auto x = at::ones({4});
  auto graph = make_cpu_graph();
  graph->capture_begin(std::nullopt);
  error_of([&] { x.sum().item<float>(); });
  EXPECT_EQ(x.sum().item<float>(), 4);
  EXPECT_THROW(graph->capture_end(), Error);
  EXPECT_THROW(graph->replay(), Error);
  graph->capture_begin(std::nullopt);
  const auto y = x + 1;
  graph->capture_end();
  x.fill_(5);
  graph->replay();
  EXPECT_TRUE(y.equal(at::ones({4}) * 6));
}

// Fails if capture or replay is accepted in an invalid state.
TEST(CpuGraph, RejectsCallsOutOfOrder) {
  auto graph = make_cpu_graph();
  EXPECT_THROW(graph->replay(), Error);
  EXPECT_THROW(graph->capture_end(), Error);
  const auto x = at::ones({1});
  auto inner = capture([&] { x.add_(1); });
  graph->capture_begin(std::nullopt);
  EXPECT_TRUE(is_cpu_capturing());
  EXPECT_THROW(make_cpu_graph()->capture_begin(std::nullopt), Error);
  EXPECT_THROW(inner->replay(), Error);
  graph->reset();
  EXPECT_FALSE(is_cpu_capturing());
  EXPECT_THROW(graph->replay(), Error);
}

// Fails if work on another thread is captured, or two concurrent captures are accepted.
TEST(CpuGraph, RecordsOneThread) {
  const auto x = at::zeros({2}), foreign = at::zeros({2});
  std::shared_ptr<sdk::GraphImpl> graph = capture([&] {
    x.add_(1);
    std::thread([&] {
      EXPECT_FALSE(is_cpu_capturing());
      foreign.add_(1);
      EXPECT_THROW(make_cpu_graph()->capture_begin(std::nullopt), Error);
    }).join();
  });
  graph->replay();
  EXPECT_EQ(x.select(0, 0).item<float>(), 2);
  EXPECT_EQ(foreign.select(0, 0).item<float>(), 1);
}

// Fails if a thread whose capture was reset by another thread records into a later capture.
TEST(CpuGraph, ResetEndsTheCaptureOfAnotherThread) {
  const auto x = at::zeros({2}), other = at::zeros({2});
  const auto graph = make_cpu_graph();
  graph->capture_begin(std::nullopt);
  std::thread([&] { graph->reset(); }).join();
  std::shared_ptr<sdk::GraphImpl> next;
  std::promise<void> capturing, worked;
  std::thread thread([&] {
    next = capture([&] {
      x.add_(1);
      capturing.set_value();
      worked.get_future().wait();
    });
  });
  capturing.get_future().wait();
  other.add_(1);
  worked.set_value();
  thread.join();
  next->replay();
  EXPECT_EQ(x.select(0, 0).item<float>(), 2);
  EXPECT_EQ(other.select(0, 0).item<float>(), 1);
}

// Fails if work on a thread that has copied the capturing thread's at::ThreadLocalState is not
// captured. Autograd copies this state to its threads.
TEST(CpuGraph, CaptureFollowsThreadLocalState) {
  const auto x = at::zeros({2});
  const auto graph = capture([&] {
    const at::ThreadLocalState state;
    std::thread([&] {
      const at::ThreadLocalStateGuard guard(state);
      EXPECT_TRUE(is_cpu_capturing());
      x.add_(1);
    }).join();
  });
  graph->replay();
  EXPECT_EQ(x.select(0, 0).item<float>(), 2);
}

// The kernel of this op calls other ops on torch's worker threads.
void add_to_rows(const Tensor& x) {
  at::parallel_for(0, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) x.select(0, i).add_(1);
  });
}

TORCH_LIBRARY_FRAGMENT(anyaccel_test, library) {
  library.def("add_to_rows(Tensor(a!) x) -> ()");
  library.impl("add_to_rows", c10::DispatchKey::CPU, &add_to_rows);
}

// Fails if ops called within a kernel are recorded in addition to the kernel. Replay would run them
// twice.
TEST(CpuGraph, KernelsAreRecordedOnce) {
  const auto x = at::zeros({64, 4});
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("anyaccel_test::add_to_rows", "");
  const auto graph = capture([&] { op.typed<void(const Tensor&)>().call(x); });
  graph->replay();
  EXPECT_TRUE(x.equal(at::ones({64, 4}) * 2));
}

// Fails if replays repeat the captured random numbers, or do not use the host generator.
TEST(CpuGraph, RandomOpsDrawNewNumbers) {
  const auto x = at::ones({100});
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto work = [&] {
    return std::pair{at::dropout(x, 0.5, true), at::randn({5}).add(at::empty({5}).normal_())};
  };
  std::pair<Tensor, Tensor> got;
  const auto graph = capture([&] { got = work(); });
  const auto first = got.first.clone();
  generator.set_current_seed(7);
  graph->replay();
  const auto second = got.first.clone();
  graph->replay();
  const auto third = got.first.clone(), numbers = got.second.clone();
  EXPECT_FALSE(first.equal(second));
  EXPECT_FALSE(second.equal(third));
  generator.set_current_seed(7);
  EXPECT_TRUE(work().first.equal(second));
  const auto again = work();
  EXPECT_TRUE(again.first.equal(third));
  EXPECT_TRUE(again.second.equal(numbers));
}

// Fails if a weight that autocast converted before the capture is treated as a constant.
TEST(CpuGraph, AutocastIsCaptured) {
  const auto x = at::randn({4, 4}), w = at::randn({4, 4}).set_requires_grad(true);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
  const auto work = [&] { return at::linear(x, w); };
  work();
  Tensor y;
  const auto graph = capture([&] { y = work().detach(); });
  {
    const c10::AutoGradMode no_grad(false);
    w.fill_(2);
  }
  graph->replay();
  at::autocast::clear_cache();
  EXPECT_TRUE(y.equal(work()));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

// Fails if the graph does not own the memory that it needs, or keeps it after reset().
TEST(CpuGraph, OwnsItsMemory) {
  const auto x = at::ones({64});
  c10::weak_intrusive_ptr<c10::StorageImpl> middle(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
          at::empty({1}).storage().unsafeGetStorageImpl()));
  Tensor y;
  const auto graph = capture([&] {
    const auto z = x * 2;
    middle = c10::weak_intrusive_ptr<c10::StorageImpl>(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(z.storage().unsafeGetStorageImpl()));
    y = z + 1;
  });
  EXPECT_FALSE(middle.expired());
  const auto kept = y;
  graph->reset();
  EXPECT_TRUE(middle.expired());
  EXPECT_TRUE(kept.equal(at::ones({64}) * 3));
}

// Fails if intermediate tensors do not reuse memory, or live tensors share memory.
TEST(CpuGraph, IntermediatesShareMemory) {
  constexpr std::int64_t kCount = 1 << 18;  // 1 MiB
  const auto x = at::randn({kCount});
  const auto work = [&](const Tensor& from) {
    const auto kept = from * 2;  // used at the end
    auto z = from;
    for (int i = 0; i < 20; ++i) z = (z + 1).mul_(0.5).relu();
    return z + kept;
  };
  auto& accelerator = get_accelerator();
  const auto before = accelerator.memory_allocated();
  Tensor y;
  const auto graph = capture([&] { y = work(x); });
  EXPECT_LE(accelerator.memory_allocated() - before, 5 << 20);
  const auto first = y.clone();
  graph->replay();
  EXPECT_TRUE(y.equal(first));
  x.copy_(at::randn({kCount}));
  graph->replay();
  EXPECT_TRUE(y.equal(work(x)));
  graph->reset();
  EXPECT_LE(accelerator.memory_allocated() - before, 3 << 20);
}

// Fails if replay writes to the old address of a tensor that was reallocated.
TEST(CpuGraph, RejectsReplayAfterAResize) {
  auto x = at::ones({4});
  Tensor y;
  const auto graph = capture([&] { y = x + 1; });
  x.resize_({1 << 20});
  try {
    graph->replay();
    FAIL() << "the graph was replayed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_state);
  }
}

// Fails if replay does not recompute the new tensors that an in-place op returns.
TEST(CpuGraph, ReplayUpdatesNewResultsOfInPlaceOps) {
  const auto x = at::randn({16, 3}), mean = at::zeros({3}), variance = at::ones({3});
  const auto norm = [&](Tensor running_mean, Tensor running_variance) {
    return std::get<0>(at::_native_batch_norm_legit(x, {}, {}, running_mean, running_variance,
                                                    /*training=*/true, /*momentum=*/0.1,
                                                    /*eps=*/1e-5));
  };
  Tensor y;
  const auto graph = capture([&] { y = norm(mean, variance); });
  for (int i = 0; i < 3; ++i) {
    x.copy_(at::randn({16, 3}));
    const auto expected_mean = mean.clone(), expected_variance = variance.clone();
    const auto expected = norm(expected_mean, expected_variance);
    graph->replay();
    EXPECT_TRUE(y.equal(expected));
    EXPECT_TRUE(mean.equal(expected_mean));
    EXPECT_TRUE(variance.equal(expected_variance));
  }
}

// Fails if graphs share a pool by default, or cannot share one on request.
TEST(CpuGraph, PoolsAreSharedOnRequest) {
  const auto x = at::ones({1});
  const auto first = capture([&] { x.add_(1); }), second = capture([&] { x.add_(1); });
  EXPECT_NE(first->pool(), second->pool());
  auto third = make_cpu_graph();
  third->capture_begin(first->pool());
  x.add_(1);
  third->capture_end();
  EXPECT_EQ(third->pool(), first->pool());
}

// Fails if the recorder's dispatch key stays enabled after a capture, so that all later ops go
// through it.
TEST(CpuGraph, CapturesRepeatedly) {
  const auto x = at::ones({3});
  auto graph = make_cpu_graph();
  Tensor y;
  for (int i = 1; i < 4; ++i) {
    graph->capture_begin(std::nullopt);
    y = x * i;
    graph->capture_end();
    x.add_(1);
    graph->replay();
    EXPECT_TRUE(y.equal(x * i));
  }
}

}  // namespace
}  // namespace anyaccel::backends::cpu
