#include "kernels/transformer/skinny_gemm.h"

#define ANYACCEL_KERNEL "kernels/transformer/skinny_gemm_isa.h"
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

std::int64_t skinny_gemm_packed(const SkinnyGemm& product) noexcept {
  return (product.rows + 15) / 16 * 16 * product.inputs;
}

void pack_skinny_gemm(Isa isa, const SkinnyGemm& product, const float* from, std::int64_t begin,
                      std::int64_t end, float* packed) noexcept {
  ANYACCEL_CALL_ISA(isa, pack, product, from, begin, end, packed);
}

void skinny_gemm_forward(Isa isa, const SkinnyGemm& product, const float* packed, const float* bias,
                         std::int64_t output, float* to) noexcept {
  ANYACCEL_CALL_ISA(isa, forward, product, packed, bias, output, to);
}

void skinny_gemm_backward(Isa isa, const SkinnyGemm& product, const float* from, bool add,
                          std::int64_t begin, std::int64_t end, float* to) noexcept {
  ANYACCEL_CALL_ISA(isa, backward, product, from, add, begin, end, to);
}

}  // namespace anyaccel::ops
