#include "kernels/spatial/bias_add.h"

#define ANYACCEL_KERNEL "kernels/spatial/bias_add_isa.h"
#include "kernels/simd/each_isa_and_double.h"

namespace anyaccel::ops {

void bias_add(Isa isa, Element element, const BiasAdd<float>& add, std::int64_t begin,
              std::int64_t end) noexcept {
  switch (element) {
    case Element::f32: return ANYACCEL_CALL_ISA(isa, bias_elements<float>, add, begin, end);
    case Element::bf16: return ANYACCEL_CALL_ISA(isa, bias_elements<Bf16>, add, begin, end);
    case Element::fp16: return ANYACCEL_CALL_ISA(isa, bias_elements<Fp16>, add, begin, end);
  }
}

void bias_add(const BiasAdd<double>& add, std::int64_t begin, std::int64_t end) noexcept {
  fp64::bias_elements<double>(add, begin, end);
}

void repeat_bias(Isa isa, Element element, const void* bias, const void* other_bias,
                 std::int64_t channels, std::int64_t period, float* to) noexcept {
  switch (element) {
    case Element::f32:
      return ANYACCEL_CALL_ISA(isa, repeated<float>, bias, other_bias, channels, period, to);
    case Element::bf16:
      return ANYACCEL_CALL_ISA(isa, repeated<Bf16>, bias, other_bias, channels, period, to);
    case Element::fp16:
      return ANYACCEL_CALL_ISA(isa, repeated<Fp16>, bias, other_bias, channels, period, to);
  }
}

void repeat_bias(const double* bias, const double* other_bias, std::int64_t channels,
                 std::int64_t period, double* to) noexcept {
  fp64::repeated<double>(bias, other_bias, channels, period, to);
}

}  // namespace anyaccel::ops
