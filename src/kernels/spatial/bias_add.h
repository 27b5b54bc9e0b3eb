// Adds biases to activations whose channels are contiguous. Uses plain pointers; independent of
// torch.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// out = activation + other + bias. All arrays except the bias have the same type, and `other` may
/// be null. Sums are computed in float (or in double for double) and rounded once.
template <typename Real>
struct BiasAdd {
  const void* activation;
  const void* other;
  void* out;
  const Real* bias;     ///< [period]: one value per channel, possibly repeated
  std::int64_t period;  ///< element i uses bias[i % period]
};

/// Processes the elements [begin, end). `begin` must be a multiple of the period.
void bias_add(Isa isa, Element element, const BiasAdd<float>& add, std::int64_t begin,
              std::int64_t end) noexcept;
void bias_add(const BiasAdd<double>& add, std::int64_t begin, std::int64_t end) noexcept;

/// Computes to = bias + other_bias, repeated `period` / `channels` times. other_bias may be null.
void repeat_bias(Isa isa, Element element, const void* bias, const void* other_bias,
                 std::int64_t channels, std::int64_t period, float* to) noexcept;
void repeat_bias(const double* bias, const double* other_bias, std::int64_t channels,
                 std::int64_t period, double* to) noexcept;

/// Returns the number of channels, or a multiple of it if there are few channels, so that the loop
/// over a period is long.
constexpr std::int64_t bias_period(std::int64_t channels) {
  return channels < 256 ? 256 / channels * channels : channels;
}

}  // namespace anyaccel::ops
