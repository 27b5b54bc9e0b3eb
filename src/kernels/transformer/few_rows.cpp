#include "kernels/transformer/few_rows.h"

#define ANYACCEL_KERNEL "kernels/transformer/few_rows_isa.h"
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

std::int64_t few_rows_packed(const FewRows& product) noexcept { return (product.rows + 15) / 16 * 16 * product.inputs; }

void pack_few_rows(Isa isa, const FewRows& product, const float* from, std::int64_t begin, std::int64_t end,
                   float* packed) noexcept {
  ANYACCEL_CALL_ISA(isa, pack, product, from, begin, end, packed);
}

void few_rows_forward(Isa isa, const FewRows& product, const float* packed, const float* bias, std::int64_t output,
                      float* to) noexcept {
  ANYACCEL_CALL_ISA(isa, forward, product, packed, bias, output, to);
}

void few_rows_backward(Isa isa, const FewRows& product, const float* from, bool add, std::int64_t begin,
                       std::int64_t end, float* to) noexcept {
  ANYACCEL_CALL_ISA(isa, backward, product, from, add, begin, end, to);
}

}  // namespace anyaccel::ops
