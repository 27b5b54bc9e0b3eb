// Attention for one head, on plain arrays. The full score matrix is never stored. Independent of
// torch.
#pragma once

#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

/// One head of one batch entry. T is float or double. `dim` is a multiple of 16.
template <typename T>
struct FullAttention {
  const T* q;
  const T* k;
  const T* v;
  std::int64_t row;  ///< stride between rows of q, k and v, in elements
  std::int64_t length, dim;
  T scale;
  /// mask[query * mask_row + key * mask_column] is added to the scores; may be null.
  const T* mask;
  std::int64_t mask_row, mask_column;
  T* out;  ///< output of the forward pass, input of the backward pass
  std::int64_t out_row;
  /// [row][2]: the maximum score and 1 / sum of exp(score - maximum). Both are 0 for a row that
  /// attends to no keys. May be null in the forward pass.
  T* stats;
  Dropout dropout;
  std::int64_t first_row;  ///< dropout row index of the first query
};

template <typename T>
struct FullAttentionGrad {
  const T* grad_out;  ///< row stride: `out_row`
  T* dq;              ///< row stride of dq, dk and dv: `row`
  T* dk;
  T* dv;
  std::int64_t row;
};

/// Number of queries per call of the forward pass.
constexpr std::int64_t attention_tile = 64;

/// Size of the scratch memory per call, in elements. The memory must be aligned to 64 bytes.
std::int64_t full_attention_scratch(std::int64_t dim) noexcept;

/// Computes the outputs of up to attention_tile queries, starting at `query`, which is a multiple
/// of attention_tile. The double version ignores `isa`.
void full_attention(Isa isa, const FullAttention<float>& head, std::int64_t query,
                    float* scratch) noexcept;
void full_attention(Isa isa, const FullAttention<double>& head, std::int64_t query,
                    double* scratch) noexcept;

/// Computes all gradients of a head. dk and dv need not be initialized.
void full_attention_grad(Isa isa, const FullAttention<float>& head,
                         const FullAttentionGrad<float>& grad, float* scratch) noexcept;
void full_attention_grad(Isa isa, const FullAttention<double>& head,
                         const FullAttentionGrad<double>& grad, double* scratch) noexcept;

}  // namespace anyaccel::ops
