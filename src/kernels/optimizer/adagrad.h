// Adagrad on host memory, without torch: one step over plain arrays, for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/optimizer/one_state.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

struct AdagradConstants {
  float minus_lr;
  float eps;
  float weight_decay;
};

/// Updates the elements [begin, end). The processor must support `isa`. Results are bitwise
/// independent of the range, the alignment and the instruction set. With g the gradient:
///   g += weight_decay * p;  s += g * g;  p -= lr * (g * (1 / (sqrt(s) + eps)))
/// The reciprocal is rounded before the multiplication. If the reciprocal is out of range for this
/// eps, g is divided instead.
void adagrad_update(Isa isa, const AdagradConstants& constants, const OneStateArrays& arrays,
                    std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
