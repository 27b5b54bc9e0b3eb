// Block-sparse attention for one head, in float and double.
#if defined(ANYACCEL_ATTENTION_SPARSE_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_ATTENTION_SPARSE_ISA_H)
#undef ANYACCEL_ATTENTION_SPARSE_ISA_H
#else
#define ANYACCEL_ATTENTION_SPARSE_ISA_H
#endif

#include "kernels/attention/query_tile_isa.h"
#include "kernels/attention/sparse.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/transpose_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

using Head = AttentionHead<Real>;

/// to[query][key] += from[key][query]
void add_back(const Real* from, std::int64_t tile, std::int64_t keys, Real* to,
              std::int64_t to_row) {
  Real part[side * side];
  for (std::int64_t query = 0; query < tile; query += side)
    for (std::int64_t key = 0; key < keys; key += side) {
      load_transposed(from + key * tile + query, tile, 1, side, side, part);
      for (std::int64_t q = 0; q < side; ++q)
        for (std::int64_t k = 0; k < side; k += Vec::width) {
          Real* const at = to + (query + q) * to_row + key + k;
          (Vec::load(at) + Vec::load(part + q * side + k)).store(at);
        }
    }
}

/// Adds the masks and position embeddings to the scores of one key block.
void add_masks(const Head& head, std::int64_t query, std::int64_t tile, std::int64_t key,
               Real* scores) {
  if (head.key_padding) add_to_keys(head.key_padding + key, 1, head.block, tile, scores);
  if (head.rpe)
    add_transposed<false>(head.rpe + query * head.rpe_row + key * head.rpe_column, head.rpe_row,
                          head.rpe_column, tile, tile, head.block, scores);
  const std::int64_t mask = query * head.mask_row + key * head.mask_column;
  if (head.seen)
    add_transposed<true>(head.seen + mask, head.mask_row, head.mask_column, tile, tile, head.block,
                         scores);
  else if (head.attn_mask && head.mask_multiplies)
    add_transposed<true>(head.attn_mask + mask, head.mask_row, head.mask_column, tile, tile,
                         head.block, scores);
  else if (head.attn_mask)
    add_transposed<false>(head.attn_mask + mask, head.mask_row, head.mask_column, tile, tile,
                          head.block, scores);
}

/// Multiplies the rows of the given key blocks by a packed tile; the result is [key][query]. Does
/// not prefetch the next block's rows, because that is slower.
void times_blocks(const Head& head, const Real* rows, std::int64_t row, const std::int32_t* columns,
                  std::int64_t count, const Real* packed, std::int64_t tile, Real* to) {
  for (std::int64_t i = 0; i < count; ++i)
    times_rows(rows + columns[i] * head.block * row, row, head.block, head.dim, packed, tile,
               to + i * head.block * tile);
}

void scores_of(const Head& head, std::int64_t query, std::int64_t tile, const std::int32_t* columns,
               std::int64_t count, const Real* packed, Real* scores) {
  times_blocks(head, head.k, head.k_row, columns, count, packed, tile, scores);
  if (!head.key_padding && !head.rpe && !head.attn_mask && !head.seen) return;
  for (std::int64_t i = 0; i < count; ++i)
    add_masks(head, query, tile, columns[i] * head.block, scores + i * head.block * tile);
}

/// Computes to[query][dim] += weights^T * rows, for the rows of the given key blocks.
void add_weighted(const Head& head, const Real* weights, std::int64_t tile, const Real* rows,
                  std::int64_t row, const std::int32_t* columns, std::int64_t count, Real* to) {
  const std::int64_t most = near_keys > head.block ? near_keys / head.block : 1;
  for (std::int64_t i = 0; i < count; i += most)
    multiply<true, true>({tile, head.dim, head.block, weights + i * head.block * tile, tile, rows,
                          row, to, head.dim, columns + i, count - i < most ? count - i : most,
                          head.block * tile, head.block * row});
}

void forward_tile(const Head& head, std::int64_t query, std::int64_t tile,
                  const std::int32_t* columns, std::int64_t count, const Scratch& s) {
  const std::int64_t dim = head.dim;
  start_softmax(head.q + query * head.q_row, head.q_row, tile, tile, dim, head.scale, s);
  const std::int64_t most = chunk_elements / (tile * head.block);
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t blocks = count - begin < most ? count - begin : most;
    scores_of(head, query, tile, columns + begin, blocks, s.packed, s.scores);
    softmax_chunk<1>(blocks * head.block, tile, s);
    if (begin) rescale_sums(tile, dim, s);
    add_weighted(head, s.scores, tile, head.v, head.v_row, columns + begin, blocks, s.sums);
  }
  finish_softmax(tile, dim, s, head.out + query * dim, dim, head.stats + 2 * query);
}

void backward_tile(const Head& head, const AttentionGrads<Real>& grads, std::int64_t query,
                   std::int64_t tile, const std::int32_t* columns, std::int64_t count,
                   const Scratch& s) {
  const std::int64_t dim = head.dim, block = head.block;
  const Real* grad_out = grads.grad_out + query * dim;
  start_gradients({head.q + query * head.q_row, head.q_row}, {grad_out, dim},
                  {head.out + query * dim, dim}, head.stats + 2 * query, tile, tile, dim,
                  head.scale, s);
  const std::int64_t most = chunk_elements / (tile * block);
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t blocks = count - begin < most ? count - begin : most;
    const std::int32_t* const there = columns + begin;
    scores_of(head, query, tile, there, blocks, s.packed, s.scores);
    times_blocks(head, head.v, head.v_row, there, blocks, s.packed2, tile, s.scores2);
    differentiate_chunk(blocks * block, tile, s);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t key = there[i] * block;
      const std::int64_t at = i * block * tile;
      multiply<false, true>({block, dim, tile, s.scores + at, tile, grad_out, dim,
                             grads.dv + key * dim, dim, nullptr, 1, 0, 0});
      multiply<false, true>({block, dim, tile, s.scores2 + at, tile, s.rows, dim,
                             grads.dk + key * dim, dim, nullptr, 1, 0, 0});
      if (grads.drpe)
        add_back(s.scores2 + at, tile, block, grads.drpe + query * grads.drpe_row + key,
                 grads.drpe_row);
    }
    add_weighted(head, s.scores2, tile, head.k, head.k_row, there, blocks, s.sums);
  }
  for (std::int64_t i = 0; i < tile * dim; ++i) grads.dq[query * dim + i] += s.sums[i] * head.scale;
}

/// Calls call(query, tile, columns, count) for each tile of the query blocks in `square`. `columns`
/// lists the key blocks that the tile attends to and that are in the square.
template <typename Tile>
inline void each_tile(const Head& head, const BlockSquare& square, const Tile& call) {
  for (std::int64_t block_row = square.row; block_row < square.row_end; ++block_row) {
    std::int64_t begin = head.first[block_row], end = head.first[block_row + 1];
    while (begin < end && head.columns[begin] < square.column) ++begin;
    while (begin < end && head.columns[end - 1] >= square.column_end) --end;
    for (std::int64_t row = 0; row < head.block; row += tile_queries)
      call(block_row * head.block + row,
           head.block - row < tile_queries ? head.block - row : tile_queries, head.columns + begin,
           end - begin);
  }
}

}  // namespace

inline std::int64_t scratch_elements(std::int64_t dim) { return Scratch::elements(dim, 2); }

void forward(const Head& head, std::int64_t block_row, Real* scratch) {
  const Scratch s(scratch, head.dim);
  each_tile(head, {block_row, block_row + 1, 0, std::int64_t{1} << 31},
            [&](std::int64_t query, std::int64_t tile, const std::int32_t* columns,
                std::int64_t count) { forward_tile(head, query, tile, columns, count, s); });
}

void backward(const Head& head, const AttentionGrads<Real>& grads, const BlockSquare& square,
              Real* scratch) {
  const Scratch s(scratch, head.dim);
  each_tile(
      head, square,
      [&](std::int64_t query, std::int64_t tile, const std::int32_t* columns, std::int64_t count) {
        if (count) backward_tile(head, grads, query, tile, columns, count, s);
      });
}

ANYACCEL_ISA_END
#endif
