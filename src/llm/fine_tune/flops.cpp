#include "llm/fine_tune/flops.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "anyaccel/accelerator.h"
#include "llm/support/clock.h"
#include "llm/support/compute_device.h"

namespace anyaccel::llm {

namespace {

/// Number of weights in the matrix products of one token.
double weights_per_token(const ModelConfig& c) {
  const auto of = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  double sum = of(c.vocab_size, c.embedding_width());
  if (c.embedding_size > 0) sum += 2 * of(c.embedding_size, c.hidden_size);
  const double matrices = c.gated ? 3 : 2;
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) {
    sum += 2 * of(c.hidden_size, c.num_heads * c.head_dim);
    sum += 2 * of(c.hidden_size, c.num_kv_heads * c.head_dim);
    if (c.has_experts(layer))
      sum +=
          static_cast<double>(c.experts_per_token) * matrices * of(c.hidden_size, c.expert_size) +
          of(c.hidden_size, c.num_experts);
    else
      sum += matrices * of(c.hidden_size, c.intermediate_size);
  }
  return sum;
}

}  // namespace

TrainingFlops training_flops(const ModelConfig& config, std::int64_t trained_adapters) {
  const double weights = weights_per_token(config);
  TrainingFlops flops;
  flops.per_token =
      trained_adapters > 0 ? 4 * weights + 6 * static_cast<double>(trained_adapters) : 6 * weights;
  // Scores and weighted sums: two products forward and four backward, half of them masked.
  flops.per_pair =
      6.0 * static_cast<double>(config.num_layers * config.num_heads * config.head_dim);
  return flops;
}

namespace {

double peak_of_products(c10::ScalarType dtype) {
  // Seconds. Long enough that launch times and the clock's resolution do not matter.
  constexpr double kEnough = 0.03;
  const c10::AutoGradMode no_gradient(false);
  Accelerator& accelerator = get_accelerator();
  double best = 0;
  for (std::int64_t size = 512; size <= 8192; size *= 2) {
    const auto options = at::TensorOptions().dtype(dtype).device(compute_device());
    const at::Tensor a = at::full({size, size}, 0.5, options),
                     b = at::full({size, size}, 0.25, options);
    double fastest = 0;
    for (int i = 0; i < 4; ++i) {
      accelerator.synchronize();
      const auto begin = Clock::now();
      const at::Tensor c = at::mm(a, b);
      accelerator.synchronize();
      const double seconds = seconds_since(begin);
      if (i > 0) fastest = fastest == 0 ? seconds : std::min(fastest, seconds);
    }
    const auto n = static_cast<double>(size);
    best = std::max(best, 2 * n * n * n / fastest);
    if (fastest > kEnough) break;
  }
  return best;
}

}  // namespace

double measured_peak_flops(c10::ScalarType dtype) {
  const double peak = peak_of_products(c10::kFloat);
  // Processors without bfloat16 instructions are faster in float32.
  return dtype == c10::kFloat ? peak : std::max(peak, peak_of_products(dtype));
}

}  // namespace anyaccel::llm
