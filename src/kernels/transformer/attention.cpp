#include "kernels/transformer/attention.h"

#define ANYACCEL_KERNEL "kernels/transformer/attention_isa.h"
#include "kernels/simd/each_isa_and_double.h"

namespace anyaccel::ops {

std::int64_t full_attention_scratch(std::int64_t dim) noexcept {
  return scalar::full_attention_elements(dim);
}

void full_attention(Isa isa, const FullAttention<float>& head, std::int64_t query,
                    float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, forward, head, query, scratch);
}

void full_attention(Isa, const FullAttention<double>& head, std::int64_t query,
                    double* scratch) noexcept {
  fp64::forward(head, query, scratch);
}

void full_attention_grad(Isa isa, const FullAttention<float>& head,
                         const FullAttentionGrad<float>& grad, float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, backward, head, grad, scratch);
}

void full_attention_grad(Isa, const FullAttention<double>& head,
                         const FullAttentionGrad<double>& grad, double* scratch) noexcept {
  fp64::backward(head, grad, scratch);
}

}  // namespace anyaccel::ops
