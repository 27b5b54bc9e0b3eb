#include "kernels/decoder/integers.h"

#define ANYACCEL_KERNEL "kernels/decoder/integers_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

void widen_rows(Isa isa, const Matrix& matrix, std::int64_t begin, std::int64_t end, Element type,
                void* to) noexcept {
  ANYACCEL_CALL_ISA(isa, widen, matrix, begin, end, type, to);
}

void quantize_row(Isa isa, int bits, std::int64_t group, Element type, const void* from,
                  std::int64_t inputs, void* weight, float* scales, float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, quantize, bits, group, type, from, inputs, weight, scales, scratch);
}

}  // namespace anyaccel::ops
