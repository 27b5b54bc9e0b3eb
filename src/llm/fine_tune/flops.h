// Floating-point operations of a model, and the speed of the device.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "anyaccel/llm/config.h"

namespace anyaccel::llm {

/// FLOPs of training. Recomputation, norms and activation functions are not included. A matrix
/// product of an [m, k] and a [k, n] matrix has 2 m k n FLOPs.
struct TrainingFlops {
  /// FLOPs per token for the products with weights. The backward pass of a trained weight computes
  /// two products, that of a frozen weight one.
  double per_token = 0;
  /// FLOPs of causal attention for a sequence of n tokens, divided by n (n + 1).
  double per_pair = 0;

  double sequence(std::int64_t tokens) const {
    const auto n = static_cast<double>(tokens);
    return per_token * n + per_pair * n * (n + 1);
  }
};

/// `trained_adapters`: number of parameters of adapters; 0 if all weights are trained. Sliding
/// windows count as full attention.
TrainingFlops training_flops(const ModelConfig& config, std::int64_t trained_adapters);

/// Measures the device's speed in large square matrix products of `dtype` and of float32, and
/// returns the higher one, in FLOP/s. Takes about a second for each dtype.
double measured_peak_flops(c10::ScalarType dtype);

}  // namespace anyaccel::llm
