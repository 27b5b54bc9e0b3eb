// Attention of one head over plain arrays; nothing of the size length x length is made. Nothing
// here knows torch.
#pragma once

#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

/// One batch entry and head; T is float or double. `dim` is a multiple of 16.
template <typename T>
struct FullAttention {
  const T* q;
  const T* k;
  const T* v;
  std::int64_t row;  ///< elements from a row of q, k and v to the next
  std::int64_t length, dim;
  T scale;
  const T*
      mask;  ///< null, or what is added to the scores: mask[query * mask_row + key * mask_column]
  std::int64_t mask_row, mask_column;
  T* out;  ///< in the backward pass what the forward pass wrote
  std::int64_t out_row;
  T* stats;  ///< [row][2]: greatest score, and 1 / sum of exp(score - greatest); 0 and 0 when
             ///< nothing is seen; may be null forward
  Dropout dropout;
  std::int64_t first_row;  ///< the dropout's row for the first query
};

template <typename T>
struct FullAttentionGrad {
  const T* grad_out;  ///< rows `out_row` apart
  T* dq;              ///< these three have rows `row` apart
  T* dk;
  T* dv;
  std::int64_t row;
};

/// Queries that one forward call does.
constexpr std::int64_t attention_tile = 64;

/// Elements of scratch memory that each call needs, aligned to 64 bytes.
std::int64_t full_attention_scratch(std::int64_t dim) noexcept;

/// The queries from `query`, a multiple of attention_tile. double ignores `isa`.
void full_attention(Isa isa, const FullAttention<float>& head, std::int64_t query,
                    float* scratch) noexcept;
void full_attention(Isa isa, const FullAttention<double>& head, std::int64_t query,
                    double* scratch) noexcept;

/// The whole head; dk and dv need not be zeros before.
void full_attention_grad(Isa isa, const FullAttention<float>& head,
                         const FullAttentionGrad<float>& grad, float* scratch) noexcept;
void full_attention_grad(Isa isa, const FullAttention<double>& head,
                         const FullAttentionGrad<double>& grad, double* scratch) noexcept;

}  // namespace anyaccel::ops
