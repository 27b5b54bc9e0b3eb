// Causal attention for one head, in float and double. Processes tiles of queries, and for each tile
// the visible keys in chunks whose scores stay in the cache.
#if defined(ANYACCEL_TRAINING_CAUSAL_ATTENTION_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRAINING_CAUSAL_ATTENTION_ISA_H)
#undef ANYACCEL_TRAINING_CAUSAL_ATTENTION_ISA_H
#else
#define ANYACCEL_TRAINING_CAUSAL_ATTENTION_ISA_H
#endif

#include "kernels/attention/query_tile_isa.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/training/causal_attention.h"

ANYACCEL_ISA_BEGIN
namespace {

static_assert(causal_tile == tile_queries);

/// A tile of `rows` queries, padded in memory to `width`, and the keys [first, end) that at least
/// one of them sees.
struct CausalTile {
  std::int64_t query, rows, width, first, end, window;

  CausalTile(const CausalHead<Real>& head, std::int64_t at) : query(at), window(head.window) {
    rows = head.length - at < causal_tile ? head.length - at : causal_tile;
    width = (rows + 15) / 16 * 16;
    end = at + rows;
    first = window > 0 && at >= window ? at - window + 1 : 0;
  }
  /// Number of keys per chunk.
  std::int64_t most() const { return chunk_elements / width; }
};

/// Sets the scores of the invisible keys among [key, key + keys) to -inf.
void hide(const CausalTile& tile, std::int64_t key, std::int64_t keys, Real* scores) {
  for (std::int64_t k = key; k < key + keys; ++k) {
    Real* const at = scores + (k - key) * tile.width;
    const std::int64_t later = k - tile.query < tile.width ? k - tile.query : tile.width;
    for (std::int64_t q = 0; q < later; ++q) at[q] = -infinity;
    if (tile.window <= 0) continue;
    const std::int64_t past = k + tile.window - tile.query;
    for (std::int64_t q = past > 0 ? past : 0; q < tile.width; ++q) at[q] = -infinity;
  }
}

/// Computes to[query][dim] += weights^T * rows, for weights [key][query].
void add_weighted(const CausalTile& tile, std::int64_t dim, const Real* weights, const Real* rows,
                  std::int64_t row, std::int64_t keys, Real* to) {
  for (std::int64_t key = 0; key < keys; key += near_keys)
    multiply<true, true>({tile.rows, dim, keys - key < near_keys ? keys - key : near_keys,
                          weights + key * tile.width, tile.width, rows + key * row, row, to, dim,
                          nullptr, 1, 0, 0});
}

void gradient_of_tile(const CausalHead<Real>& head, const CausalHeadGrad<Real>& grad,
                      const CausalTile& tile, const Scratch& s) {
  const std::int64_t dim = head.dim;
  const Real* const grad_out = grad.out.at + tile.query * grad.out.row;
  start_gradients({head.q.at + tile.query * head.q.row, head.q.row}, {grad_out, grad.out.row},
                  {head.out.at + tile.query * head.out.row, head.out.row},
                  head.stats + 2 * tile.query, tile.rows, tile.width, dim, head.scale, s);
  for (std::int64_t key = tile.first; key < tile.end; key += tile.most()) {
    const std::int64_t keys = tile.end - key < tile.most() ? tile.end - key : tile.most();
    const Real* const k = head.k.at + key * head.k.row;
    times_rows(k, head.k.row, keys, dim, s.packed, tile.width, s.scores);
    hide(tile, key, keys, s.scores);
    times_rows(head.v.at + key * head.v.row, head.v.row, keys, dim, s.packed2, tile.width,
               s.scores2);
    differentiate_chunk(keys, tile.width, s);
    multiply<false, true>({keys, dim, tile.rows, s.scores, tile.width, grad_out, grad.out.row,
                           grad.v.at + key * grad.v.row, grad.v.row, nullptr, 1, 0, 0});
    multiply<false, true>({keys, dim, tile.rows, s.scores2, tile.width, s.rows, dim,
                           grad.k.at + key * grad.k.row, grad.k.row, nullptr, 1, 0, 0});
    add_weighted(tile, dim, s.scores2, k, head.k.row, keys, s.sums);
  }
  for (std::int64_t q = 0; q < tile.rows; ++q)
    for (std::int64_t i = 0; i < dim; ++i)
      grad.q.at[(tile.query + q) * grad.q.row + i] = s.sums[q * dim + i] * head.scale;
}

}  // namespace

inline std::int64_t causal_elements(std::int64_t dim) { return Scratch::elements(dim, 2); }

void causal_forward(const CausalHead<Real>& head, std::int64_t query, Real* scratch) {
  const std::int64_t dim = head.dim;
  const Scratch s(scratch, dim);
  const CausalTile tile(head, query);
  start_softmax(head.q.at + query * head.q.row, head.q.row, tile.rows, tile.width, dim, head.scale,
                s);
  for (std::int64_t key = tile.first; key < tile.end; key += tile.most()) {
    const std::int64_t keys = tile.end - key < tile.most() ? tile.end - key : tile.most();
    times_rows(head.k.at + key * head.k.row, head.k.row, keys, dim, s.packed, tile.width, s.scores);
    hide(tile, key, keys, s.scores);
    softmax_chunk<2>(keys, tile.width, s);
    if (key > tile.first) rescale_sums(tile.rows, dim, s);
    add_weighted(tile, dim, s.scores, head.v.at + key * head.v.row, head.v.row, keys, s.sums);
  }
  finish_softmax(tile.rows, dim, s, head.out.at + query * head.out.row, head.out.row,
                 head.stats ? head.stats + 2 * query : nullptr);
}

void causal_backward(const CausalHead<Real>& head, const CausalHeadGrad<Real>& grad,
                     Real* scratch) {
  const Scratch s(scratch, head.dim);
  for (std::int64_t query = 0; query < head.length; query += causal_tile)
    gradient_of_tile(head, grad, CausalTile(head, query), s);
}

ANYACCEL_ISA_END
#endif
