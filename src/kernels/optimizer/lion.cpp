#include "kernels/optimizer/lion.h"

#define ANYACCEL_KERNEL "kernels/optimizer/lion_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

LionConstants lion_constants(double lr, double beta1, double beta2, double weight_decay) {
  const auto rounded = [](double value) { return static_cast<float>(value); };
  return {.beta1 = rounded(beta1),
          .one_minus_beta1 = rounded(1 - beta1),
          .beta2 = rounded(beta2),
          .one_minus_beta2 = rounded(1 - beta2),
          .minus_lr = rounded(-lr),
          .shrink = rounded(-lr * weight_decay)};
}

void lion_update(Isa isa, const LionConstants& constants, const OneStateArrays& arrays,
                 std::int64_t begin, std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, update, constants, arrays, begin, end);
}

}  // namespace anyaccel::ops
