#include "kernels/quantization/integer.h"

#define ANYACCEL_KERNEL "kernels/quantization/integer_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

void quantize_groups(Isa isa, const QuantizeJob& job, std::int64_t begin,
                     std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, groups_to_codes, job, begin, end);
}
GroupRange range_of_part(Isa isa, const QuantizeJob& job, std::int64_t begin,
                         std::int64_t end) noexcept {
  return ANYACCEL_CALL_ISA(isa, part_range, job, begin, end);
}
void quantize_part(Isa isa, const QuantizeJob& job, const GroupScale& scale, std::int64_t group,
                   std::int64_t begin, std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, part_to_codes, job, scale, group, begin, end);
}
void dequantize_part(Isa isa, const DequantizeJob& job, std::int64_t begin,
                     std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, part_to_values, job, begin, end);
}
void reduce_groups(Isa isa, const ReduceJob& job, std::int64_t begin, std::int64_t end,
                   float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, sums_to_codes, job, begin, end, scratch);
}
void dequantize_half_part(Isa isa, const DequantizeHalfJob& job, std::int64_t begin,
                          std::int64_t end) noexcept {
  ANYACCEL_CALL_ISA(isa, part_to_halves, job, begin, end);
}

}  // namespace anyaccel::ops
