// Times individual ops on n elements on the selected accelerator: `DS_ACCELERATOR=sim bench_sim`.
// Prints microseconds until a call returns (submit) and until its result is available (complete).
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <functional>

#include "anyaccel/accelerator.h"
#include "timing.h"

namespace {

/// Returns the median over single calls. The queue is empty before each call, because a full queue
/// would block.
double submit_us(const std::function<void()>& work) {
  auto& accelerator = anyaccel::get_accelerator();
  std::vector<double> times;
  for (int i = 0; i < 2000; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
    accelerator.synchronize();
  }
  std::nth_element(times.begin(), times.begin() + 1000, times.end());
  return times[1000];
}

double complete_us(const std::function<void()>& work) {
  auto& accelerator = anyaccel::get_accelerator();
  return benchmarks::nanoseconds([&] {
           work();
           accelerator.synchronize();
         }) /
         1e3;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  const c10::AutoGradMode no_grad(false);
  const auto device = anyaccel::get_accelerator().torch_device();
  benchmarks::Numbers numbers;
  for (const std::int64_t n : {64, 16384}) {
    const auto x = at::randn({n}).to(device), y = at::randn({n}).to(device);
    const auto rows = at::randn({n / 64, 64}).to(device), square = at::randn({64, 64}).to(device);
    const std::pair<const char*, std::function<void()>> ops[] = {
        {"add_", [&] { x.add_(y); }},
        {"add", [&] { at::add(x, y); }},
        {"mm", [&] { at::mm(rows, square); }},
        {"gelu", [&] { at::gelu(x); }},
        {"layer_norm", [&] { at::layer_norm(rows, {64}); }},
        {"view", [&] {
           x.view({-1, 64});
         }}};
    for (const auto& [name, work] : ops) {
      work();
      const auto prefix = std::string(name) + "_" + std::to_string(n);
      numbers.add(prefix + "_submit_us", submit_us(work));
      numbers.add(prefix + "_complete_us", complete_us(work));
    }
  }
  numbers.print();
}
