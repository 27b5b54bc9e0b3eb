// Block-sparse attention over plain arrays. Independent of torch: register.cpp of the op checks and
// converts the tensors and runs the threads.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// One batch entry and head. T is float or double. `dim` is a multiple of 16; `block` is a multiple
/// of 16 up to 128. Rows are `*_row` elements apart, and the head dimension is contiguous.
template <typename T>
struct AttentionHead {
  const T* q;
  const T* k;
  const T* v;
  std::int64_t q_row, k_row, v_row;
  std::int64_t dim, block;
  T scale;
  /// Position embeddings that are added to the scores, rpe[query * rpe_row + key * rpe_column], or
  /// null.
  const T* rpe;
  std::int64_t rpe_row, rpe_column;
  const T* attn_mask;        ///< null, or a mask shared by all heads
  const std::uint8_t* seen;  ///< null, or a byte mask that replaces attn_mask; zeros hide keys
  std::int64_t mask_row, mask_column;
  /// If set, zeros of attn_mask hide keys and other values are ignored; otherwise it is added.
  bool mask_multiplies;
  const T* key_padding;  ///< null, or a value per key that is added to the scores
  T* out;                ///< rows `dim` apart
  /// [row][2]: maximum score and 1 / sum of exp(score - maximum); both 0 if the row sees no key.
  T* stats;
  /// Index in `columns` of the first key block of each block row, and the end of the last one.
  const std::int64_t* first;
  const std::int32_t* columns;  ///< key blocks in the layout, ascending in each row
};

/// Gradients of one head, accumulated; all rows are `dim` apart.
template <typename T>
struct AttentionGrads {
  const T* grad_out;
  T* dq;
  T* dk;
  T* dv;
  T* drpe;  ///< null, or [queries, keys] of this head
  std::int64_t drpe_row;
};

/// Scratch memory per call, in elements, aligned to 64 bytes.
std::int64_t attention_scratch(std::int64_t dim) noexcept;

/// Computes `out` and `stats` of one query block. double ignores `isa`.
void attention_forward(Isa isa, const AttentionHead<float>& head, std::int64_t block_row,
                       float* scratch) noexcept;
void attention_forward(Isa isa, const AttentionHead<double>& head, std::int64_t block_row,
                       double* scratch) noexcept;

/// Blocks of one head that are processed together: query blocks [row, row_end) and key blocks
/// [column, column_end).
struct BlockSquare {
  std::int64_t row, row_end, column, column_end;
};

/// Adds the contributions of a square's blocks to the gradients of one head. `out` and `stats` come
/// from the forward pass.
void attention_backward(Isa isa, const AttentionHead<float>& head,
                        const AttentionGrads<float>& grads, const BlockSquare& square,
                        float* scratch) noexcept;
void attention_backward(Isa isa, const AttentionHead<double>& head,
                        const AttentionGrads<double>& grads, const BlockSquare& square,
                        double* scratch) noexcept;

}  // namespace anyaccel::ops
