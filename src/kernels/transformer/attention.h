// Attention of one head over plain arrays. It never stores a length x length matrix. Independent of
// torch.
#pragma once

#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

/// One batch entry and head; T is float or double. `dim` is a multiple of 16.
template <typename T>
struct FullAttention {
  const T* q;
  const T* k;
  const T* v;
  std::int64_t row;  ///< elements between rows of q, k and v
  std::int64_t length, dim;
  T scale;
  /// Null, or added to the scores: mask[query * mask_row + key * mask_column].
  const T* mask;
  std::int64_t mask_row, mask_column;
  T* out;  ///< output of the forward pass, input of the backward pass
  std::int64_t out_row;
  /// [row][2]: maximum score and 1 / sum of exp(score - maximum); both 0 if the row sees no key.
  /// May be null in the forward pass.
  T* stats;
  Dropout dropout;
  std::int64_t first_row;  ///< the first query's row in the dropout
};

template <typename T>
struct FullAttentionGrad {
  const T* grad_out;  ///< rows `out_row` apart
  T* dq;              ///< rows of dq, dk and dv are `row` apart
  T* dk;
  T* dv;
  std::int64_t row;
};

/// Queries per call of the forward pass.
constexpr std::int64_t attention_tile = 64;

/// Scratch memory per call, in elements, aligned to 64 bytes.
std::int64_t full_attention_scratch(std::int64_t dim) noexcept;

/// Computes the queries from `query` on, a multiple of attention_tile. double ignores `isa`.
void full_attention(Isa isa, const FullAttention<float>& head, std::int64_t query,
                    float* scratch) noexcept;
void full_attention(Isa isa, const FullAttention<double>& head, std::int64_t query,
                    double* scratch) noexcept;

/// Computes all gradients of a head; dk and dv need not be initialized.
void full_attention_grad(Isa isa, const FullAttention<float>& head,
                         const FullAttentionGrad<float>& grad, float* scratch) noexcept;
void full_attention_grad(Isa isa, const FullAttention<double>& head,
                         const FullAttentionGrad<double>& grad, double* scratch) noexcept;

}  // namespace anyaccel::ops
