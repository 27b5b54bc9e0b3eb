// Causal attention for one head of one sequence with its gradient, on plain arrays. The score
// matrix is never stored, and blocks without visible keys are not computed. Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Rows with a stride of `row` elements.
template <typename T>
struct StridedRows {
  T* at;
  std::int64_t row;
};

/// One query head of one sequence, with the key head that it uses. T is float or double. `dim` is a
/// multiple of 16.
template <typename T>
struct CausalHead {
  StridedRows<const T> q, k, v;
  std::int64_t length, dim;
  std::int64_t window;  ///< number of visible keys, including the query's own; 0: no limit
  T scale;
  StridedRows<T> out;  ///< output of the forward pass, input of the backward pass
  /// [row][2]: the maximum score and 1 / sum of exp(score - maximum).
  T* stats;
};

template <typename T>
struct CausalHeadGrad {
  StridedRows<const T> out;  ///< gradient of `out`
  StridedRows<T> q;          ///< overwritten
  StridedRows<T> k, v;       ///< added to
};

/// Number of queries per call of the forward pass.
constexpr std::int64_t causal_tile = 64;

/// Size of the scratch memory per call, in elements. The memory must be aligned to 64 bytes.
std::int64_t causal_attention_scratch(std::int64_t dim) noexcept;

/// Computes the outputs of up to causal_tile queries, starting at `query`, which is a multiple of
/// causal_tile. The double version ignores `isa`.
void causal_attention_tile(Isa isa, const CausalHead<float>& head, std::int64_t query,
                           float* scratch) noexcept;
void causal_attention_tile(Isa isa, const CausalHead<double>& head, std::int64_t query,
                           double* scratch) noexcept;

/// Computes the gradient of all queries of a head, and adds the gradients of the keys and values.
void causal_attention_grad(Isa isa, const CausalHead<float>& head,
                           const CausalHeadGrad<float>& grad, float* scratch) noexcept;
void causal_attention_grad(Isa isa, const CausalHead<double>& head,
                           const CausalHeadGrad<double>& grad, double* scratch) noexcept;

}  // namespace anyaccel::ops
