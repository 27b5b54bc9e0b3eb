// Block-sparse attention on plain arrays. Independent of torch: src/ops/sparse_attn validates and
// converts the tensors and runs the threads.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// One head of one batch entry. T is float or double. `dim` is a multiple of 16, and `block` is a
/// multiple of 16 up to 128. The stride between rows is `*_row` elements, and the head dimension is
/// contiguous.
template <typename T>
struct AttentionHead {
  const T* q;
  const T* k;
  const T* v;
  std::int64_t q_row, k_row, v_row;
  std::int64_t dim, block;
  T scale;
  /// Position embeddings that are added to the scores, rpe[query * rpe_row + key * rpe_column]. May
  /// be null.
  const T* rpe;
  std::int64_t rpe_row, rpe_column;
  const T* attn_mask;        ///< mask shared by all heads; may be null
  const std::uint8_t* seen;  ///< byte mask in which 0 masks a key; replaces attn_mask; may be null
  std::int64_t mask_row, mask_column;
  /// If set, zeros in attn_mask mask out keys, and other values are ignored. Otherwise attn_mask is
  /// added to the scores.
  bool mask_multiplies;
  const T* key_padding;  ///< one value per key, added to the scores; may be null
  T* out;                ///< row stride: `dim`
  /// [row][2]: the maximum score and 1 / sum of exp(score - maximum). Both are 0 for a row that
  /// attends to no keys.
  T* stats;
  /// For each block row, the index of its first key block in `columns`; followed by the end of the
  /// last row.
  const std::int64_t* first;
  const std::int32_t* columns;  ///< key blocks in the layout, ascending in each row
};

/// Gradients of one head. They are accumulated. The stride between rows is `dim`.
template <typename T>
struct AttentionGrads {
  const T* grad_out;
  T* dq;
  T* dk;
  T* dv;
  T* drpe;  ///< [queries, keys] of this head; may be null
  std::int64_t drpe_row;
};

/// Size of the scratch memory per call, in elements. The memory must be aligned to 64 bytes.
std::int64_t attention_scratch(std::int64_t dim) noexcept;

/// Computes `out` and `stats` of one query block. The double version ignores `isa`.
void attention_forward(Isa isa, const AttentionHead<float>& head, std::int64_t block_row,
                       float* scratch) noexcept;
void attention_forward(Isa isa, const AttentionHead<double>& head, std::int64_t block_row,
                       double* scratch) noexcept;

/// Blocks of one head that are processed together: the query blocks [row, row_end) and the key
/// blocks [column, column_end).
struct BlockSquare {
  std::int64_t row, row_end, column, column_end;
};

/// Adds the contributions of the blocks in `square` to the gradients of one head. `out` and `stats`
/// must come from the forward pass.
void attention_backward(Isa isa, const AttentionHead<float>& head,
                        const AttentionGrads<float>& grads, const BlockSquare& square,
                        float* scratch) noexcept;
void attention_backward(Isa isa, const AttentionHead<double>& head,
                        const AttentionGrads<double>& grads, const BlockSquare& square,
                        double* scratch) noexcept;

}  // namespace anyaccel::ops
