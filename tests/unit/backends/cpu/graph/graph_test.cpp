#include "backends/cpu/graph/graph.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "anyaccel/error.h"

namespace anyaccel::backends::cpu {
namespace {

// Captures what `work` does.
std::shared_ptr<sdk::GraphImpl> capture(const std::function<void()>& work) {
  auto graph = make_cpu_graph();
  graph->capture_begin(std::nullopt);
  work();
  graph->capture_end();
  return graph;
}

// Fails when replay does not run the work again on the same memory.
TEST(CpuGraph, ReplayFollowsItsInput) {
  const auto x = at::randn({8, 8}), w = at::randn({8, 8});
  at::Tensor y;
  const auto graph = capture([&] { y = at::mm(x, w).relu_().add(1.5).t().contiguous(); });
  const void* address = y.data_ptr();
  for (int i = 0; i < 3; ++i) {
    x.copy_(at::randn({8, 8}));
    graph->replay();
    EXPECT_TRUE(y.equal(at::mm(x, w).relu_().add(1.5).t().contiguous()));
  }
  EXPECT_EQ(y.data_ptr(), address);
}

}  // namespace
}  // namespace anyaccel::backends::cpu
