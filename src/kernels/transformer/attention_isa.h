// Attention of one head, in float and in double.
//
// Scores are stored transposed, [key][query], one tile of queries wide, as in kernels/attention/sparse_isa.h. The last
// tile is padded with zeros, so sequences may have any length.
#if defined(ANYACCEL_TRANSFORMER_ATTENTION_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRANSFORMER_ATTENTION_ISA_H)
#undef ANYACCEL_TRANSFORMER_ATTENTION_ISA_H
#else
#define ANYACCEL_TRANSFORMER_ATTENTION_ISA_H
#endif

#include "kernels/simd/math_isa.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/transpose_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/transformer/attention.h"
#include "kernels/transformer/dropout.h"

ANYACCEL_ISA_BEGIN
namespace {

using Head = FullAttention<Real>;

constexpr std::int64_t chunk_elements = 16384;  // scores of a chunk
constexpr std::int64_t near_keys = 64;          // the values of so many keys stay in the first-level cache

/// A tile of `rows` queries, padded to `width` in memory.
struct Tile {
  std::int64_t query, rows, width;
  std::uint32_t low[attention_tile], high[attention_tile];  // halves of the dropout's row keys

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

/// [key][query] products of rows of keys or values with a packed tile.
void times_rows(const Real* rows, std::int64_t row, std::int64_t count, std::int64_t dim, const Real* packed,
                std::int64_t tile, Real* to) {
  multiply<false, false>({count, tile, dim, rows, row, packed, tile, to, tile, nullptr, 1, 0, 0});
}

void add_mask(const Head& head, const Tile& tile, std::int64_t key, std::int64_t keys, Real* scores) {
  if (!head.mask) return;
  if (head.mask_row == 0) {
    for (std::int64_t k = 0; k < keys; ++k) {
      const Vec value = Vec::of(head.mask[(key + k) * head.mask_column]);
      for (std::int64_t q = 0; q < tile.width; q += Vec::width) {
        Real* at = scores + k * tile.width + q;
        (Vec::load(at) + value).store(at);
      }
    }
    return;
  }
  for (std::int64_t q = 0; q < tile.rows; ++q) {
    const Real* row = head.mask + (tile.query + q) * head.mask_row + key * head.mask_column;
    for (std::int64_t k = 0; k < keys; ++k) scores[k * tile.width + q] += row[k * head.mask_column];
  }
}

/// Applies dropout to weights [key][query]. `to` may be `from`.
void drop(const Head& head, const Tile& tile, std::int64_t key, std::int64_t keys, const Real* from, Real* to) {
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

/// to[query][dim] += weights^T rows
void add_weighted(const Head& head, const Tile& tile, const Real* weights, const Real* rows, std::int64_t keys,
                  Real* to) {
  for (std::int64_t key = 0; key < keys; key += near_keys)
    multiply<true, true>({tile.rows, head.dim, keys - key < near_keys ? keys - key : near_keys,
                          weights + key * tile.width, tile.width, rows + key * head.row, head.row, to, head.dim,
                          nullptr, 1, 0, 0});
}

/// Replaces scores by exp(score - maximum). Updates the maximum and the sum of each query; `rescale` is the factor for
/// sums of earlier chunks.
void softmax_chunk(Real* scores, std::int64_t keys, std::int64_t tile, Real* maximum, Real* sum, Real* rescale) {
  for (std::int64_t q = 0; q < tile; q += Vec::width) {
    const Vec old = Vec::load(maximum + q);
    Vec most = old;
    for (std::int64_t k = 0; k < keys; ++k) most = max_of(most, Vec::load(scores + k * tile + q));
    // If all scores so far are -inf, subtracting the maximum would give NaN.
    const Vec from = {most.x == Vec::of(-infinity).x ? Vec::of(0).x : most.x};
    // Subtracts before multiplying by log2(e): the mask may be the lowest float, which times 1.44 is infinite.
    const Vec shift = from * Vec::of(-1);
    const Vec again = exp2_of((old + shift) * Vec::of(log2_e));
    Vec all = Vec::load(sum + q) * again, other = Vec::of(0);
    std::int64_t k = 0;
    for (; k + 2 <= keys; k += 2) {
      const Vec e = exp2_of((Vec::load(scores + k * tile + q) + shift) * Vec::of(log2_e));
      const Vec f = exp2_of((Vec::load(scores + (k + 1) * tile + q) + shift) * Vec::of(log2_e));
      e.store(scores + k * tile + q);
      f.store(scores + (k + 1) * tile + q);
      all = all + e;
      other = other + f;
    }
    for (; k < keys; ++k) {
      const Vec e = exp2_of((Vec::load(scores + k * tile + q) + shift) * Vec::of(log2_e));
      e.store(scores + k * tile + q);
      all = all + e;
    }
    most.store(maximum + q);
    (all + other).store(sum + q);
    again.store(rescale + q);
  }
}

/// Parts of the scratch memory. Each is a multiple of a cache line.
struct Scratch {
  Real *packed, *packed2, *sums, *rows, *scores, *scores2, *scores3, *maximum, *sum, *rescale;

  Scratch(Real* at, std::int64_t dim)
      : packed(at),
        packed2(packed + attention_tile * dim),
        sums(packed2 + attention_tile * dim),
        rows(sums + attention_tile * dim),
        scores(rows + attention_tile * dim),
        scores2(scores + chunk_elements),
        scores3(scores2 + chunk_elements),
        maximum(scores3 + chunk_elements),
        sum(maximum + attention_tile),
        rescale(sum + attention_tile) {}
};

void grad_tile(const Head& head, const FullAttentionGrad<Real>& grad, const Tile& tile, const Scratch& s) {
  const std::int64_t dim = head.dim;
  const Real* grad_out = grad.grad_out + tile.query * head.out_row;
  Real* const delta = s.sum;
  Real* const shift = s.maximum;
  Real* const inverse = s.rescale;
  transpose_rows(head.q + tile.query * head.row, head.row, tile.rows, tile.width, dim, head.scale, s.packed,
                 tile.width);
  transpose_rows(grad_out, head.out_row, tile.rows, tile.width, dim, 1, s.packed2, tile.width);
  for (std::int64_t q = 0; q < tile.width; ++q) delta[q] = shift[q] = inverse[q] = 0;
  for (std::int64_t q = 0; q < tile.rows; ++q) {
    const std::int64_t query = tile.query + q;
    Real product = 0;
    for (std::int64_t i = 0; i < dim; ++i) {
      product += grad_out[q * head.out_row + i] * head.out[query * head.out_row + i];
      s.rows[q * dim + i] = head.q[query * head.row + i] * head.scale;
      s.sums[q * dim + i] = 0;
    }
    delta[q] = -product;
    shift[q] = -head.stats[2 * query];
    inverse[q] = head.stats[2 * query + 1];
  }
  const std::int64_t most = chunk_elements / tile.width;
  for (std::int64_t key = 0; key < head.length; key += most) {
    const std::int64_t keys = head.length - key < most ? head.length - key : most;
    times_rows(head.k + key * head.row, head.row, keys, dim, s.packed, tile.width, s.scores);
    add_mask(head, tile, key, keys, s.scores);
    times_rows(head.v + key * head.row, head.row, keys, dim, s.packed2, tile.width, s.scores2);
    if (head.dropout.threshold) drop(head, tile, key, keys, s.scores2, s.scores2);
    for (std::int64_t k = 0; k < keys; ++k)
      for (std::int64_t q = 0; q < tile.width; q += Vec::width) {
        Real* const score = s.scores + k * tile.width + q;
        Real* const change = s.scores2 + k * tile.width + q;
        const Vec weight =
            exp2_of((Vec::load(score) + Vec::load(shift + q)) * Vec::of(log2_e)) * Vec::load(inverse + q);
        weight.store(score);
        (weight * (Vec::load(change) + Vec::load(delta + q))).store(change);
      }
    const Real* weights = s.scores;
    if (head.dropout.threshold) {
      drop(head, tile, key, keys, s.scores, s.scores3);
      weights = s.scores3;
    }
    multiply<false, true>({keys, dim, tile.rows, weights, tile.width, grad_out, head.out_row, grad.dv + key * grad.row,
                           grad.row, nullptr, 1, 0, 0});
    multiply<false, true>({keys, dim, tile.rows, s.scores2, tile.width, s.rows, dim, grad.dk + key * grad.row, grad.row,
                           nullptr, 1, 0, 0});
    add_weighted(head, tile, s.scores2, head.k + key * head.row, keys, s.sums);
  }
  for (std::int64_t q = 0; q < tile.rows; ++q)
    for (std::int64_t i = 0; i < dim; ++i) grad.dq[(tile.query + q) * grad.row + i] = s.sums[q * dim + i] * head.scale;
}

}  // namespace

inline std::int64_t full_attention_elements(std::int64_t dim) {
  return 4 * attention_tile * dim + 3 * chunk_elements + 3 * attention_tile;
}

void forward(const Head& head, std::int64_t query, Real* scratch) {
  const std::int64_t dim = head.dim;
  const Scratch s(scratch, dim);
  const Tile tile(head, query);
  transpose_rows(head.q + query * head.row, head.row, tile.rows, tile.width, dim, head.scale, s.packed, tile.width);
  for (std::int64_t i = 0; i < tile.rows * dim; ++i) s.sums[i] = 0;
  for (std::int64_t q = 0; q < tile.width; ++q) {
    s.maximum[q] = -infinity;
    s.sum[q] = 0;
  }
  const std::int64_t most = chunk_elements / tile.width;
  for (std::int64_t key = 0; key < head.length; key += most) {
    const std::int64_t keys = head.length - key < most ? head.length - key : most;
    times_rows(head.k + key * head.row, head.row, keys, dim, s.packed, tile.width, s.scores);
    add_mask(head, tile, key, keys, s.scores);
    softmax_chunk(s.scores, keys, tile.width, s.maximum, s.sum, s.rescale);
    if (key)
      for (std::int64_t q = 0; q < tile.rows; ++q)
        for (std::int64_t i = 0; i < dim; ++i) s.sums[q * dim + i] *= s.rescale[q];
    if (head.dropout.threshold) drop(head, tile, key, keys, s.scores, s.scores);
    add_weighted(head, tile, s.scores, head.v + key * head.row, keys, s.sums);
  }
  for (std::int64_t q = 0; q < tile.rows; ++q) {
    const Real sum = s.sum[q];
    const Real inverse = sum == 0 ? 0 : 1 / sum;
    Real* out = head.out + (query + q) * head.out_row;
    for (std::int64_t i = 0; i < dim; ++i) out[i] = s.sums[q * dim + i] * inverse;
    if (!head.stats) continue;
    // Stored separately: added to a maximum of -1e9, the logarithm of the sum would be lost.
    head.stats[2 * (query + q)] = sum == 0 ? 0 : s.maximum[q];
    head.stats[2 * (query + q) + 1] = inverse;
  }
}

void backward(const Head& head, const FullAttentionGrad<Real>& grad, Real* scratch) {
  const Scratch s(scratch, head.dim);
  for (std::int64_t k = 0; k < head.length; ++k)
    for (std::int64_t i = 0; i < head.dim; ++i) grad.dk[k * grad.row + i] = grad.dv[k * grad.row + i] = 0;
  for (std::int64_t query = 0; query < head.length; query += attention_tile)
    grad_tile(head, grad, Tile(head, query), s);
}

ANYACCEL_ISA_END
#endif
