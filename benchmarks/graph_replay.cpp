// Times work that runs eagerly or as a graph replay: `bench_graph_replay eager|replay`. Prints the
// microseconds for a chain of 20 elementwise ops on n elements (eager: with and without autograd
// recording) and for a training step (two linear layers, GELU, squared error, backward, clipping,
// AdamW) with n activations.
#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/adamw.h"
#include "timing.h"

namespace {

using at::Tensor;

// 20 elementwise ops that are common in models.
Tensor chain(Tensor x, const Tensor& y) {
  for (int i = 0; i < 4; ++i) x = x.add(y).mul(y).relu().sub(y).mul(0.5);
  return x;
}

// Returns the median time of `work` in microseconds, run eagerly or captured and replayed.
double time_us(bool replay, const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  if (!replay) return benchmarks::nanoseconds(work, 9, 10) / 1e3;
  auto& accelerator = anyaccel::get_accelerator();
  auto graph = accelerator.create_graph();
  auto capture = accelerator.capture_to_graph(graph);
  work();
  capture.end();
  return benchmarks::nanoseconds([&] { accelerator.replay_graph(graph); }, 9, 10) / 1e3;
}

double time_chain(bool replay, std::int64_t n, bool with_grad) {
  const auto x = at::randn({n}).set_requires_grad(with_grad), y = at::randn({n});
  const c10::AutoGradMode mode(with_grad);
  Tensor result;
  return time_us(replay, [&] { result = chain(x, y); });
}

double time_training_step(bool replay, std::int64_t n) {
  constexpr std::int64_t kWidth = 16;
  const auto parameter = [](at::IntArrayRef shape) {
    return at::randn(shape).mul_(0.2).set_requires_grad(true);
  };
  const std::vector<Tensor> p = {parameter({kWidth, kWidth}), parameter({kWidth}),
                                 parameter({kWidth, kWidth}), parameter({kWidth})};
  const auto x = at::randn({n / kWidth, kWidth}), y = at::randn({n / kWidth, kWidth});
  anyaccel::llm::AdamW optimizer(p);
  optimizer.zero_grad();
  return time_us(replay, [&] {
    optimizer.zero_grad();
    at::mse_loss(at::linear(at::gelu(at::linear(x, p[0], p[1])), p[2], p[3]), y).backward();
    optimizer.clip_grad_norm(1.0);
    optimizer.step();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc > 1 ? argv[1] : "";
  if (side != "eager" && side != "replay") {
    fprintf(stderr, "usage: bench_graph_replay eager|replay\n");
    return 2;
  }
  const bool replay = side == "replay";
  benchmarks::Numbers numbers;
  for (const std::int64_t n : {64, 256, 1024, 4096, 16384, 65536}) {
    const auto name = [&](const char* what) {
      return std::string(what) + "_" + std::to_string(n) + "_us";
    };
    numbers.add(name("chain"), time_chain(replay, n, false));
    numbers.add(name("chain_with_grad"), time_chain(replay, n, true));
    numbers.add(name("training_step"), time_training_step(replay, n));
  }
  numbers.print();
}
