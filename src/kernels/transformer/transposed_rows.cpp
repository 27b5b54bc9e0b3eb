#include "kernels/transformer/transposed_rows.h"

#define ANYACCEL_KERNEL "kernels/transformer/transposed_rows_isa.h"
#include "kernels/simd/each_isa.h"

namespace anyaccel::ops {

void multiply_turned(Isa isa, const TurnedProduct& product, std::int64_t part,
                     float* sums) noexcept {
  switch (product.element) {
    case Element::f32: return ANYACCEL_CALL_ISA(isa, turned_rows<float>, product, part, sums);
    case Element::bf16: return ANYACCEL_CALL_ISA(isa, turned_rows<Bf16>, product, part, sums);
    case Element::fp16: return ANYACCEL_CALL_ISA(isa, turned_rows<Fp16>, product, part, sums);
  }
}

void add_parts(Isa isa, std::int64_t parts, std::int64_t apart, std::int64_t begin,
               std::int64_t end, float* sums) noexcept {
  ANYACCEL_CALL_ISA(isa, added_parts, parts, apart, begin, end, sums);
}

}  // namespace anyaccel::ops
