// Evoformer attention for one head, with both biases, on plain arrays. The full score matrix is
// never stored. Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// One head of one batch entry. Rows have `dim` contiguous elements; the stride between rows is
/// `<name>_row` elements. T (float or double) is the compute type. If T is float, `element` gives
/// the element type of the arrays; if T is double, they hold doubles.
template <typename T>
struct EvoformerHead {
  const void* q;
  const void* k;
  const void* v;
  std::int64_t q_row, k_row, v_row;
  std::int64_t queries, keys, dim;
  T scale;
  const void* bias1;  ///< [keys], added to the scores of every query; may be null
  const void* bias2;  ///< [queries][keys] with a row stride of `bias2_row`; may be null
  std::int64_t bias2_row;
  void* out;  ///< output of the forward pass, input of the backward pass
  std::int64_t out_row;
  /// [queries]: log-sum-exp of the scores. It is -inf for a query that attends to no keys; the
  /// output for such a query is zero.
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
  T* dbias1;  ///< [keys], overwritten with this head's gradient; may be null
  T* dbias2;  ///< [queries][keys], contiguous, accumulated; may be null
};

/// Number of queries per step in the forward pass. Query ranges begin at multiples of this number.
constexpr std::int64_t evoformer_tile = 32;

/// Size of the scratch memory per call, in elements. The memory must be aligned to 64 bytes.
std::int64_t evoformer_forward_scratch(std::int64_t keys, std::int64_t dim) noexcept;
std::int64_t evoformer_backward_scratch(std::int64_t keys, std::int64_t dim) noexcept;

/// Computes the outputs of the queries [begin, end).
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
