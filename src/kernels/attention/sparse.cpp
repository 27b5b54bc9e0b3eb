#include "kernels/attention/sparse.h"

#define ANYACCEL_KERNEL "kernels/attention/sparse_isa.h"
#include "kernels/simd/each_isa_and_double.h"

namespace anyaccel::ops {

std::int64_t attention_scratch(std::int64_t dim) noexcept { return scalar::scratch_elements(dim); }

void attention_forward(Isa isa, const AttentionHead<float>& head, std::int64_t block_row,
                       float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, forward, head, block_row, scratch);
}

void attention_forward(Isa, const AttentionHead<double>& head, std::int64_t block_row,
                       double* scratch) noexcept {
  fp64::forward(head, block_row, scratch);
}

void attention_backward(Isa isa, const AttentionHead<float>& head,
                        const AttentionGrads<float>& grads, const BlockSquare& square,
                        float* scratch) noexcept {
  ANYACCEL_CALL_ISA(isa, backward, head, grads, square, scratch);
}

void attention_backward(Isa, const AttentionHead<double>& head, const AttentionGrads<double>& grads,
                        const BlockSquare& square, double* scratch) noexcept {
  fp64::backward(head, grads, square, scratch);
}

}  // namespace anyaccel::ops
