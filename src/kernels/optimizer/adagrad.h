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

/// One step for the elements [begin, end): the same bits whatever the range, the alignment and the
/// instruction set (which the machine must have). With g the gradient:
///   g += weight_decay * p;  s += g * g;  p -= lr * (g * (1 / (sqrt(s) + eps)))
/// The reciprocal is rounded before it is multiplied, unless it is out of range for this eps: then
/// g is divided.
void adagrad_update(Isa isa, const AdagradConstants& constants, const OneStateArrays& arrays,
                    std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
