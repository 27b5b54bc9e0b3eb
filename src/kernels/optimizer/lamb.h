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
  float grad_scale;  ///< gradients are divided by it
  float decay;
  bool eps_inside;  ///< eps is added below the root
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

/// Elements whose squares are added up on their own; what is below a sum of sums, so that neither
/// the number of threads nor the instruction set changes it, nor a GPU.
constexpr std::int64_t lamb_block = 4096;
/// Sums beside each other: element i goes to lane i % lamb_lanes, in order; at the end the upper
/// half of the lanes is added to the lower one until one is left (see sum_lanes() in blocks.h). A
/// GPU has a thread for each.
constexpr int lamb_lanes = 256;

struct LambNorms {
  double params = 0;  ///< sum of squares of the parameters
  double update = 0;  ///< and of the update
};

/// First half for one block [begin, begin + at most lamb_block): with g the gradient over
/// grad_scale, m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g, and the sums
/// for u = m / (sqrt(v) + eps) + decay * p.
LambNorms lamb_moments(Isa isa, const LambConstants& constants, const LambArrays& arrays,
                       std::int64_t begin, std::int64_t end) noexcept;

/// Second half: p -= rate * u, and the copy of p.
void lamb_apply(Isa isa, const LambConstants& constants, float rate, const LambArrays& arrays,
                std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
