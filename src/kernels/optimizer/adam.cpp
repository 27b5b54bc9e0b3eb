#include "kernels/optimizer/adam.h"

#include <cmath>

#define ANYACCEL_KERNEL "kernels/optimizer/adam_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

AdamConstants adam_constants(const AdamOptions& options, std::int64_t step) {
  double bias1 = 1;
  double bias2 = 1;
  if (options.bias_correction) {
    bias1 = 1 - std::pow(options.beta1, static_cast<double>(step));
    bias2 = 1 - std::pow(options.beta2, static_cast<double>(step));
  }
  const auto rounded = [](double value) { return static_cast<float>(value); };
  const float l2 = options.decoupled ? 0.0F : rounded(options.weight_decay);
  const float shrink = options.decoupled ? rounded(-options.lr * options.weight_decay) : 0.0F;
  const float eps = rounded(options.eps);
  return {.beta1 = rounded(options.beta1),
          .one_minus_beta1 = rounded(1 - options.beta1),
          .beta2 = rounded(options.beta2),
          .one_minus_beta2 = rounded(1 - options.beta2),
          .eps = eps,
          .root = rounded(1 / std::sqrt(bias2)),
          .step_size = rounded(-options.lr / bias1),
          .l2 = l2,
          .shrink = shrink,
          .has_l2 = l2 != 0,
          .has_shrink = shrink != 0,
          .divides = no_reciprocal(eps)};
}

void adam_update(Isa isa, const AdamConstants& constants, const AdamArrays& arrays,
                 std::int64_t begin, std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, update, constants, arrays, begin, end);
}

void adam_rollback(Isa isa, const AdamConstants& constants, const AdamArrays& arrays,
                   std::int64_t begin, std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, rollback, constants, arrays, begin, end);
}

}  // namespace anyaccel::ops
