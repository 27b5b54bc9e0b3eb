#include "kernels/decoder/rows.h"

#define ANYACCEL_KERNEL "kernels/decoder/rows_isa.h"
#define ANYACCEL_NEON_BF16_TOO
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

void norm_row(Isa isa, const Norm& norm, const float* from, std::int64_t columns,
              float* to) noexcept {
  ANYACCEL_CALL_ISA(isa, norm, norm, from, columns, to);
}
void rotate_row(Isa isa, float* head, const float* cos, const float* sin,
                std::int64_t half) noexcept {
  ANYACCEL_CALL_ISA(isa, rotate, head, cos, sin, half);
}
void add_bias_row(Isa isa, const Values& bias, std::int64_t begin, std::int64_t columns,
                  float* row) noexcept {
  if (bias.data) ANYACCEL_CALL_ISA(isa, add_values, bias, begin, columns, row);
}
void gate_row(Isa isa, Gate gate, float* a, const float* b, std::int64_t columns) noexcept {
  ANYACCEL_CALL_ISA(isa, gate, gate, a, b, columns);
}
void store_row(Isa isa, const float* from, std::int64_t columns, const Values& to,
               std::int64_t begin) noexcept {
  ANYACCEL_CALL_ISA(isa, store, from, columns, to, begin);
}
float attention_shares_row(Isa isa, float scale, float softcap, float* scores,
                           std::int64_t count) noexcept {
  return ANYACCEL_CALL_ISA(isa, attention_shares, scale, softcap, scores, count);
}
void attend_row(Isa isa, const CachedHead& head, const float* query, float* scores,
                float* out) noexcept {
  ANYACCEL_CALL_ISA(isa, attend, head, query, scores, out);
}

}  // namespace anyaccel::ops
