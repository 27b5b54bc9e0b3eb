// The two halves of a LAMB step on plain arrays in host memory, compiled for each instruction set.
// Independent of torch.
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
  bool eps_inside;  ///< if set, eps is added inside the square root
};

/// Arrays of one tensor. Gradients and states are float or have the type of the parameters. `copy`
/// may be null.
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

/// Block size in elements. The squares of each block are summed separately. Larger sums add up
/// these partial sums, so results do not depend on the number of threads or the instruction set,
/// and are the same on a GPU.
constexpr std::int64_t lamb_block = 4096;
/// Number of partial sums. Element i is added to lane i % lamb_lanes, in order. Finally, the upper
/// half of the lanes is added to the lower half, repeatedly, until one lane is left (see
/// sum_lanes() in lamb_blocks.h). A GPU uses one thread per lane.
constexpr int lamb_lanes = 256;

struct LambNorms {
  double params = 0;  ///< sum of squares of the parameters
  double update = 0;  ///< sum of squares of the update
};

/// First half of a step, for one block [begin, end) of at most lamb_block elements. With the
/// gradient g, divided by grad_scale:
///   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g
///   u = m / (sqrt(v) + eps) + decay * p
/// Returns the sums of the squares of p and u.
LambNorms lamb_moments(Isa isa, const LambConstants& constants, const LambArrays& arrays,
                       std::int64_t begin, std::int64_t end) noexcept;

/// Second half of a step: computes p -= rate * u and updates the copy of p.
void lamb_apply(Isa isa, const LambConstants& constants, float rate, const LambArrays& arrays,
                std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
