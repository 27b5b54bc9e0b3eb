// Adam on host memory, without torch: one step over plain arrays, for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Options of a step.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = true;
  bool decoupled = true;  ///< AdamW; otherwise the decay is added to the gradient
};

/// Constants of a step, computed in double and rounded once.
struct AdamConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float root;       ///< 1 / sqrt(1 - beta2^step)
  float step_size;  ///< -lr / (1 - beta1^step)
  float l2;         ///< times the parameter, added to the gradient; 0 unless the decay is coupled
  float shrink;     ///< -lr * weight_decay, times the parameter; 0 unless the decay is decoupled
  bool has_l2;
  bool has_shrink;
  bool divides;  ///< divide, because the reciprocal of eps is not a normal number
};
AdamConstants adam_constants(const AdamOptions& options, std::int64_t step);

/// Arrays of one tensor. Gradients and both states are float or have the parameters' type.
struct AdamArrays {
  void* params;
  const void* grads;
  void* exp_avg;
  void* exp_avg_sq;
  Element param;
  Element grad;
  Element state;
};

/// Updates the elements [begin, end). The processor must support `isa`. Results are bitwise
/// independent of the range, the alignment and the instruction set. With g the gradient:
///   g += l2 * p;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g
///   p += shrink * p;  p += step_size * (m * (1 / (sqrt(v) * root + eps)))
/// The reciprocal is rounded before the multiplication. With `divides`, m is divided instead.
void adam_update(Isa isa, const AdamConstants& constants, const AdamArrays& arrays,
                 std::int64_t begin, std::int64_t end) noexcept;

/// Undoes the step as far as rounding allows. A parameter that would not be finite becomes 0.
void adam_rollback(Isa isa, const AdamConstants& constants, const AdamArrays& arrays,
                   std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
