// One Lion step on plain arrays in host memory, compiled for each instruction set. Independent of
// torch.
#pragma once

#include <cstdint>

#include "kernels/optimizer/one_state.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

struct LionConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float minus_lr;
  float shrink;  ///< -lr * weight_decay
};
LionConstants lion_constants(double lr, double beta1, double beta2, double weight_decay);

/// Updates the elements [begin, end). The processor must support `isa`. Results are bitwise
/// independent of the range, the alignment and the instruction set. With the gradient g:
///   c = beta1 * m + (1 - beta1) * g;  p += shrink * p;  p -= lr * sign(c)
///   m = beta2 * m + (1 - beta2) * g
/// sign(0) is 0, and sign(NaN) is NaN.
void lion_update(Isa isa, const LionConstants& constants, const OneStateArrays& arrays,
                 std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
