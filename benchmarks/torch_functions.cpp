// Times functions that both AnyAccel and LibTorch have: `bench_torch_functions ours|torch`. Prints
// microseconds for RMSNorm on [rows, width], with and without its backward pass, and for unscaling
// 48 gradients with n elements in total and checking that they are finite.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/amp.h"
#include "llm/model/functions.h"
#include "timing.h"

namespace {

using at::Tensor;

constexpr double kEps = 1e-5;

void time_rms_norm(benchmarks::Numbers& numbers, bool ours, std::int64_t rows, std::int64_t width,
                   at::ScalarType dtype, const std::string& name) {
  const Tensor x = at::randn({rows, width}).to(dtype).set_requires_grad(true);
  const Tensor weight = at::ones({width}).to(dtype).set_requires_grad(true);
  const Tensor gradient = at::randn({rows, width}).to(dtype);
  const auto norm = [&] {
    return ours ? anyaccel::llm::rms_norm(x, weight, kEps) : at::rms_norm(x, {width}, weight, kEps);
  };
  const std::string size = name + "_" + std::to_string(rows) + "x" + std::to_string(width);
  numbers.add("rms_norm_" + size + "_train_us", benchmarks::nanoseconds([&] {
                                                  x.mutable_grad().reset();
                                                  weight.mutable_grad().reset();
                                                  norm().backward(gradient);
                                                }) / 1e3);
  const c10::AutoGradMode no_grad(false);
  numbers.add("rms_norm_" + size + "_us",
              benchmarks::nanoseconds([&] { benchmarks::keep(norm()); }) / 1e3);
}

void time_unscale(benchmarks::Numbers& numbers, bool ours, std::int64_t n, at::ScalarType dtype,
                  const std::string& name) {
  std::vector<Tensor> gradients;
  for (int i = 0; i < 48; ++i) gradients.push_back(at::randn({n / 48}).to(dtype));
  anyaccel::GradScaler scaler({.init_scale = 1.0});
  const Tensor inverse = at::full({}, 1.0, at::kFloat);
  bool finite = true;
  const auto unscale = [&] {
    if (ours) return scaler.unscale_(gradients);
    Tensor found = at::zeros({1}, at::kFloat);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
    return found.item<float>() == 0;
  };
  numbers.add("unscale_" + name + "_" + std::to_string(n) + "_us",
              benchmarks::nanoseconds([&] { finite = finite && unscale(); }) / 1e3);
  if (!finite) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  const bool ours = argc > 1 && std::strcmp(argv[1], "ours") == 0;
  benchmarks::Numbers numbers;
  for (const auto& [dtype, name] : {std::pair{at::kFloat, std::string("fp32")},
                                    std::pair{at::kBFloat16, std::string("bf16")}}) {
    for (const auto& [rows, width] :
         {std::pair{1, 2048}, std::pair{1024, 192}, std::pair{512, 2048}})
      time_rms_norm(numbers, ours, rows, width, dtype, name);
    for (const std::int64_t n : {48'000, 4'800'000}) time_unscale(numbers, ours, n, dtype, name);
  }
  numbers.print();
}
