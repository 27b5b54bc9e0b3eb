// One Adagrad step on plain arrays in host memory, compiled for each instruction set. Independent
// of torch.
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
/// independent of the range, the alignment and the instruction set. With the gradient g:
///   g += weight_decay * p;  s += g * g;  p -= lr * (g * (1 / (sqrt(s) + eps)))
/// The reciprocal is rounded before the multiplication. If `eps` is so small that the reciprocal
/// may overflow, g is divided instead.
void adagrad_update(Isa isa, const AdagradConstants& constants, const OneStateArrays& arrays,
                    std::int64_t begin, std::int64_t end) noexcept;

}  // namespace anyaccel::ops
