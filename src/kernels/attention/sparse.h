// Block-sparse attention over plain arrays. Nothing here knows torch; register.cpp checks, converts
// and has the threads.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// One batch entry and head. T is float or double. `dim` is a multiple of 16, `block` one from 16
/// to 128; rows are
/// `*_row` elements apart, and the head dimension is contiguous.
template <typename T>
struct AttentionHead {
  const T* q;
  const T* k;
  const T* v;
  std::int64_t q_row, k_row, v_row;
  std::int64_t dim, block;
  T scale;
  const T* rpe;  ///< null, or what is added to the scores: rpe[query * rpe_row + key * rpe_column]
  std::int64_t rpe_row, rpe_column;
  const T* attn_mask;        ///< null, or the same for all heads
  const std::uint8_t* seen;  ///< null, or in its place one whose zeros hide
  std::int64_t mask_row, mask_column;
  bool mask_multiplies;  ///< the mask's zeros hide, its other values do nothing; else it is added
  const T* key_padding;  ///< null, or what is added for each key
  T* out;                ///< rows `dim` apart
  T* stats;  ///< [row][2]: greatest score, and 1 / sum of exp(score - greatest); 0 and 0 when it
             ///< sees nothing
  const std::int64_t*
      first;  ///< of each block row, its first place in `columns`; one more at the end
  const std::int32_t* columns;  ///< the key blocks that are there, ascending in each row
};

/// The gradients of one head, which are added to; all rows `dim` apart.
template <typename T>
struct AttentionGrads {
  const T* grad_out;
  T* dq;
  T* dk;
  T* dv;
  T* drpe;  ///< null, or [queries, keys] of this head
  std::int64_t drpe_row;
};

/// Elements of scratch memory that each call needs, aligned to 64 bytes.
std::int64_t attention_scratch(std::int64_t dim) noexcept;

/// The rows of one query block: out and stats. double ignores `isa`.
void attention_forward(Isa isa, const AttentionHead<float>& head, std::int64_t block_row,
                       float* scratch) noexcept;
void attention_forward(Isa isa, const AttentionHead<double>& head, std::int64_t block_row,
                       double* scratch) noexcept;

/// Blocks of one head that are done together: those of the query blocks [row, row_end) and the key
/// blocks [column, column_end).
struct BlockSquare {
  std::int64_t row, row_end, column, column_end;
};

/// What the blocks of a square add to the gradients of one head, which has out and stats from the
/// forward calls.
void attention_backward(Isa isa, const AttentionHead<float>& head,
                        const AttentionGrads<float>& grads, const BlockSquare& square,
                        float* scratch) noexcept;
void attention_backward(Isa isa, const AttentionHead<double>& head,
                        const AttentionGrads<double>& grads, const BlockSquare& square,
                        double* scratch) noexcept;

}  // namespace anyaccel::ops
