// Attention for one head, in float and double.
//
// The last tile of queries is padded with zeros, so sequences may have any length.
#if defined(ANYACCEL_TRANSFORMER_ATTENTION_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRANSFORMER_ATTENTION_ISA_H)
#undef ANYACCEL_TRANSFORMER_ATTENTION_ISA_H
#else
#define ANYACCEL_TRANSFORMER_ATTENTION_ISA_H
#endif

#include "kernels/attention/query_tile_isa.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/transformer/attention.h"
#include "kernels/transformer/dropout.h"

ANYACCEL_ISA_BEGIN
namespace {

using Head = FullAttention<Real>;

static_assert(attention_tile == tile_queries);

/// A tile of `rows` queries, padded in memory to `width`.
struct Tile {
  std::int64_t query, rows, width;
  std::uint32_t low[attention_tile], high[attention_tile];  // halves of the dropout keys

  Tile(const Head& head, std::int64_t first) : query(first) {
    rows = head.length - first < attention_tile ? head.length - first : attention_tile;
    width = (rows + 15) / 16 * 16;
    for (std::int64_t q = 0; head.dropout.threshold && q < width; ++q) {
      const std::uint64_t key = draws::row_key(head.dropout, head.first_row + first + q);
      low[q] = static_cast<std::uint32_t>(key);
      high[q] = static_cast<std::uint32_t>(key >> 32);
    }
  }
};

void add_mask(const Head& head, const Tile& tile, std::int64_t key, std::int64_t keys,
              Real* scores) {
  if (!head.mask) return;
  if (head.mask_row == 0)
    return add_to_keys(head.mask + key * head.mask_column, head.mask_column, keys, tile.width,
                       scores);
  add_transposed<false>(head.mask + tile.query * head.mask_row + key * head.mask_column,
                        head.mask_row, head.mask_column, tile.rows, tile.width, keys, scores);
}

/// Applies dropout to weights [key][query]. `from` and `to` may be the same.
void drop(const Head& head, const Tile& tile, std::int64_t key, std::int64_t keys, const Real* from,
          Real* to) {
  const std::uint32_t threshold = head.dropout.threshold;
  const auto scale = static_cast<Real>(head.dropout.scale);
  for (std::int64_t k = 0; k < keys; ++k) {
    const auto column = static_cast<std::uint32_t>(key + k);
    for (std::int64_t q = 0; q < tile.width; ++q) {
      const Real factor = draws::drawn(tile.low[q], tile.high[q], column) >= threshold ? scale : 0;
      to[k * tile.width + q] = from[k * tile.width + q] * factor;
    }
  }
}

/// Computes to[query][dim] += weights^T * rows.
void add_weighted(const Head& head, const Tile& tile, const Real* weights, const Real* rows,
                  std::int64_t keys, Real* to) {
  for (std::int64_t key = 0; key < keys; key += near_keys)
    multiply<true, true>({tile.rows, head.dim, keys - key < near_keys ? keys - key : near_keys,
                          weights + key * tile.width, tile.width, rows + key * head.row, head.row,
                          to, head.dim, nullptr, 1, 0, 0});
}

void grad_tile(const Head& head, const FullAttentionGrad<Real>& grad, const Tile& tile,
               const Scratch& s) {
  const std::int64_t dim = head.dim;
  const Real* grad_out = grad.grad_out + tile.query * head.out_row;
  start_gradients({head.q + tile.query * head.row, head.row}, {grad_out, head.out_row},
                  {head.out + tile.query * head.out_row, head.out_row}, head.stats + 2 * tile.query,
                  tile.rows, tile.width, dim, head.scale, s);
  const std::int64_t most = chunk_elements / tile.width;
  for (std::int64_t key = 0; key < head.length; key += most) {
    const std::int64_t keys = head.length - key < most ? head.length - key : most;
    times_rows(head.k + key * head.row, head.row, keys, dim, s.packed, tile.width, s.scores);
    add_mask(head, tile, key, keys, s.scores);
    times_rows(head.v + key * head.row, head.row, keys, dim, s.packed2, tile.width, s.scores2);
    if (head.dropout.threshold) drop(head, tile, key, keys, s.scores2, s.scores2);
    differentiate_chunk(keys, tile.width, s);
    const Real* weights = s.scores;
    if (head.dropout.threshold) {
      drop(head, tile, key, keys, s.scores, s.scores3);
      weights = s.scores3;
    }
    multiply<false, true>({keys, dim, tile.rows, weights, tile.width, grad_out, head.out_row,
                           grad.dv + key * grad.row, grad.row, nullptr, 1, 0, 0});
    multiply<false, true>({keys, dim, tile.rows, s.scores2, tile.width, s.rows, dim,
                           grad.dk + key * grad.row, grad.row, nullptr, 1, 0, 0});
    add_weighted(head, tile, s.scores2, head.k + key * head.row, keys, s.sums);
  }
  for (std::int64_t q = 0; q < tile.rows; ++q)
    for (std::int64_t i = 0; i < dim; ++i)
      grad.dq[(tile.query + q) * grad.row + i] = s.sums[q * dim + i] * head.scale;
}

}  // namespace

inline std::int64_t full_attention_elements(std::int64_t dim) { return Scratch::elements(dim, 3); }

void forward(const Head& head, std::int64_t query, Real* scratch) {
  const std::int64_t dim = head.dim;
  const Scratch s(scratch, dim);
  const Tile tile(head, query);
  start_softmax(head.q + query * head.row, head.row, tile.rows, tile.width, dim, head.scale, s);
  const std::int64_t most = chunk_elements / tile.width;
  for (std::int64_t key = 0; key < head.length; key += most) {
    const std::int64_t keys = head.length - key < most ? head.length - key : most;
    times_rows(head.k + key * head.row, head.row, keys, dim, s.packed, tile.width, s.scores);
    add_mask(head, tile, key, keys, s.scores);
    softmax_chunk<2>(keys, tile.width, s);
    if (key) rescale_sums(tile.rows, dim, s);
    if (head.dropout.threshold) drop(head, tile, key, keys, s.scores, s.scores);
    add_weighted(head, tile, s.scores, head.v + key * head.row, keys, s.sums);
  }
  finish_softmax(tile.rows, dim, s, head.out + query * head.out_row, head.out_row,
                 head.stats ? head.stats + 2 * query : nullptr);
}

void backward(const Head& head, const FullAttentionGrad<Real>& grad, Real* scratch) {
  const Scratch s(scratch, head.dim);
  for (std::int64_t k = 0; k < head.length; ++k)
    for (std::int64_t i = 0; i < head.dim; ++i)
      grad.dk[k * grad.row + i] = grad.dv[k * grad.row + i] = 0;
  for (std::int64_t query = 0; query < head.length; query += attention_tile)
    grad_tile(head, grad, Tile(head, query), s);
}

ANYACCEL_ISA_END
#endif
