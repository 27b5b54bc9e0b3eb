#include "kernels/optimizer/lamb.h"

#define ANYACCEL_KERNEL "kernels/optimizer/lamb_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

LambNorms lamb_moments(Isa isa, const LambConstants& constants, const LambArrays& arrays,
                       std::int64_t begin, std::int64_t end) noexcept {
  return ANYACCEL_CALL_ISA(isa, moments, constants, arrays, begin, end);
}

void lamb_apply(Isa isa, const LambConstants& constants, float rate, const LambArrays& arrays,
                std::int64_t begin, std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, apply, constants, rate, arrays, begin, end);
}

}  // namespace anyaccel::ops
