// Attention of one head with the two biases of an Evoformer block, over plain arrays. It never
// stores a queries x keys matrix. Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// One batch entry and head. Rows have `dim` contiguous elements and are `<name>_row` elements
/// apart. T, float or double, is the type of the arithmetic; the arrays have the type `element`, or
/// double.
template <typename T>
struct EvoformerHead {
  const void* q;
  const void* k;
  const void* v;
  std::int64_t q_row, k_row, v_row;
  std::int64_t queries, keys, dim;
  T scale;
  const void* bias1;  ///< null, or [keys], added to the scores of each query
  const void* bias2;  ///< null, or [queries][keys], rows `bias2_row` apart
  std::int64_t bias2_row;
  void* out;  ///< output of the forward pass, input of the backward pass
  std::int64_t out_row;
  /// [queries]: log of the sum of exp(score). -inf if a query sees no key; its output is then zero.
  T* lse;
};

template <typename T>
struct EvoformerGrads {
  const void* grad_out;
  std::int64_t grad_row;
  void* dq;
  void* dk;
  void* dv;
  std::int64_t dq_row, dk_row, dv_row;
  T* dbias1;  ///< null, or [keys]; overwritten with this head's gradient
  T* dbias2;  ///< null, or [queries][keys], contiguous; accumulated
};

/// Queries per step of the forward pass; ranges of queries begin at its multiples.
constexpr std::int64_t evoformer_tile = 32;

/// Scratch memory per call, in elements, aligned to 64 bytes.
std::int64_t evoformer_forward_scratch(std::int64_t keys, std::int64_t dim) noexcept;
std::int64_t evoformer_backward_scratch(std::int64_t keys, std::int64_t dim) noexcept;

/// Computes the queries [begin, end).
void evoformer_forward(Isa isa, Element element, const EvoformerHead<float>& head,
                       std::int64_t begin, std::int64_t end, float* scratch) noexcept;
void evoformer_forward(const EvoformerHead<double>& head, std::int64_t begin, std::int64_t end,
                       double* scratch) noexcept;

/// Computes all gradients of a head.
void evoformer_backward(Isa isa, Element element, const EvoformerHead<float>& head,
                        const EvoformerGrads<float>& grads, float* scratch) noexcept;
void evoformer_backward(const EvoformerHead<double>& head, const EvoformerGrads<double>& grads,
                        double* scratch) noexcept;

}  // namespace anyaccel::ops
