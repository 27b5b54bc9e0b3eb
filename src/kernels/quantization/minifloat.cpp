#include "kernels/quantization/minifloat.h"

#define ANYACCEL_KERNEL "kernels/quantization/minifloat_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

void to_floats(Isa isa, const ToFloatsJob& job, std::int64_t begin, std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, groups_to_rows, job, begin, end);
}
void from_floats(Isa isa, const FromFloatsJob& job, std::int64_t source, std::int64_t group,
                 std::int64_t count) noexcept {
  ANYACCEL_CALL_ISA(isa, rows_to_groups, job, source, group, count);
}

}  // namespace anyaccel::ops
