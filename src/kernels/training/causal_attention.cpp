#include "kernels/training/causal_attention.h"

#define ANYACCEL_KERNEL "kernels/training/causal_attention_isa.h"
#include "kernels/simd/each_isa_and_double.h"

namespace anyaccel::ops {

std::int64_t causal_attention_scratch(std::int64_t dim) noexcept {
  return scalar::causal_elements(dim);
}

void causal_attention_tile(Isa isa, const CausalHead<float>& head, std::int64_t query,
                           float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, causal_forward, head, query, scratch);
}

void causal_attention_tile(Isa, const CausalHead<double>& head, std::int64_t query,
                           double* scratch) noexcept {
  fp64::causal_forward(head, query, scratch);
}

void causal_attention_grad(Isa isa, const CausalHead<float>& head,
                           const CausalHeadGrad<float>& grad, float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, causal_backward, head, grad, scratch);
}

void causal_attention_grad(Isa, const CausalHead<double>& head, const CausalHeadGrad<double>& grad,
                           double* scratch) noexcept {
  fp64::causal_backward(head, grad, scratch);
}

}  // namespace anyaccel::ops
