// One Adam step on plain arrays in host memory, compiled for each instruction set. Independent of
// torch.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Options for a step.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = true;
  bool decoupled = true;  ///< as in AdamW; otherwise the decay is added to the gradient
};

/// Constants for a step. They are computed in double and rounded once.
struct AdamConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float root;       ///< 1 / sqrt(1 - beta2^step)
  float step_size;  ///< -lr / (1 - beta1^step)
  float l2;         ///< coupled decay: l2 * p is added to g; 0 if the decay is decoupled
  float shrink;     ///< decoupled decay: shrink * p is added to p; 0 if the decay is coupled
  bool has_l2;
  bool has_shrink;
  bool divides;  ///< divide, because the reciprocal of eps is not a normal number
};
AdamConstants adam_constants(const AdamOptions& options, std::int64_t step);

/// Arrays of one tensor. Gradients and both states are float or have the type of the parameters.
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
/// independent of the range, the alignment and the instruction set. With the gradient g:
///   g += l2 * p;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g
///   p += shrink * p;  p += step_size * (m * (1 / (sqrt(v) * root + eps)))
/// The reciprocal is rounded before the multiplication. If `divides` is set, m is divided by the
/// denominator instead.
void adam_update(Isa isa, const AdamConstants& constants, const AdamArrays& arrays,
                 std::int64_t begin, std::int64_t end) noexcept;

/// Undoes a step as far as rounding allows. Parameters that would become NaN or infinite are set to
/// 0.
void adam_rollback(Isa isa, const AdamConstants& constants, const AdamArrays& arrays,
                   std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
