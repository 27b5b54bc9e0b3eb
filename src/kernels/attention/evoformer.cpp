#include "kernels/attention/evoformer.h"

#define ANYACCEL_KERNEL "kernels/attention/evoformer_isa.h"
#include "kernels/simd/each_isa_and_double.h"

namespace anyaccel::ops {

std::int64_t evoformer_forward_scratch(std::int64_t keys, std::int64_t dim) noexcept {
  return scalar::forward_elements(keys, dim);
}

std::int64_t evoformer_backward_scratch(std::int64_t keys, std::int64_t dim) noexcept {
  return scalar::backward_elements(keys, dim);
}

void evoformer_forward(Isa isa, Element element, const EvoformerHead<float>& head,
                       std::int64_t begin, std::int64_t end, float* scratch) noexcept {
  switch (element) {
    case Element::f32: return ANYACCEL_CALL_ISA(isa, forward<float>, head, begin, end, scratch);
    case Element::bf16: return ANYACCEL_CALL_ISA(isa, forward<Bf16>, head, begin, end, scratch);
    case Element::fp16: return ANYACCEL_CALL_ISA(isa, forward<Fp16>, head, begin, end, scratch);
  }
}

void evoformer_forward(const EvoformerHead<double>& head, std::int64_t begin, std::int64_t end,
                       double* scratch) noexcept {
  fp64::forward<double>(head, begin, end, scratch);
}

void evoformer_backward(Isa isa, Element element, const EvoformerHead<float>& head,
                        const EvoformerGrads<float>& grads, float* scratch) noexcept {
  switch (element) {
    case Element::f32: return ANYACCEL_CALL_ISA(isa, backward<float>, head, grads, scratch);
    case Element::bf16: return ANYACCEL_CALL_ISA(isa, backward<Bf16>, head, grads, scratch);
    case Element::fp16: return ANYACCEL_CALL_ISA(isa, backward<Fp16>, head, grads, scratch);
  }
}

void evoformer_backward(const EvoformerHead<double>& head, const EvoformerGrads<double>& grads,
                        double* scratch) noexcept {
  fp64::backward<double>(head, grads, scratch);
}

}  // namespace anyaccel::ops
