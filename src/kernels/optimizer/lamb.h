// LAMB on host memory, without torch: the two halves of a step over plain arrays, for each
// instruction set.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

struct LambConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float grad_scale;  ///< divisor of the gradients
  float decay;
  bool eps_inside;  ///< eps is added under the square root
};

/// Arrays of one tensor. Gradients and states are float or have the parameters' type; `copy` may be
/// null.
struct LambArrays {
  void* params;
  void* copy;
  void* exp_avg;
  void* exp_avg_sq;
  const void* grads;
  Element param;
  Element copied;
  Element grad;
  Element state;
};

/// Elements whose squares are summed separately. A larger sum adds these sums, so it does not
/// depend on the number of threads or the instruction set, and is the same on a GPU.
constexpr std::int64_t lamb_block = 4096;
/// Partial sums: element i is added to lane i % lamb_lanes, in order. At the end the upper half of
/// the lanes is added to the lower half until one is left (see sum_lanes() in lamb_blocks.h). A GPU
/// uses one thread per lane.
constexpr int lamb_lanes = 256;

struct LambNorms {
  double params = 0;  ///< sum of squares of the parameters
  double update = 0;  ///< sum of squares of the update
};

/// First half of a step for one block [begin, end) of at most lamb_block elements. With g the
/// gradient divided by grad_scale:
///   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g
///   u = m / (sqrt(v) + eps) + decay * p
/// Returns the sums of the squares of p and u.
LambNorms lamb_moments(Isa isa, const LambConstants& constants, const LambArrays& arrays,
                       std::int64_t begin, std::int64_t end) noexcept;

/// Second half: p -= rate * u, and updates the copy of p.
void lamb_apply(Isa isa, const LambConstants& constants, float rate, const LambArrays& arrays,
                std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
