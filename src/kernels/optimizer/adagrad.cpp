#include "kernels/optimizer/adagrad.h"

#define ANYACCEL_KERNEL "kernels/optimizer/adagrad_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

void adagrad_update(Isa isa, const AdagradConstants& constants, const OneStateArrays& arrays,
                    std::int64_t begin, std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, update, constants, arrays, begin, end);
}

}  // namespace anyaccel::ops
