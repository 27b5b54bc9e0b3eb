// Block-sparse attention of one head, in float and in double.
//
// Scores are stored transposed, [key][query], with up to `tile_rows` queries per row. Queries lie along the vector, so
// that the softmax needs no sums across a vector, and keys and values are read in place. A tile of queries visits the
// keys in chunks whose scores stay in the second-level cache; the softmax's maximum and sum are carried from chunk to
// chunk.
#if defined(ANYACCEL_ATTENTION_SPARSE_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_ATTENTION_SPARSE_ISA_H)
#undef ANYACCEL_ATTENTION_SPARSE_ISA_H
#else
#define ANYACCEL_ATTENTION_SPARSE_ISA_H
#endif

#include "kernels/attention/sparse.h"
#include "kernels/simd/math_isa.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/transpose_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

using Head = AttentionHead<Real>;

constexpr std::int64_t tile_rows = 64;          // most queries of a tile
constexpr std::int64_t chunk_elements = 16384;  // scores of a chunk
constexpr std::int64_t near_keys = 64;          // the values of so many keys stay in the first-level cache

inline Real sum_of(Vec vector) {
  Real parts[Vec::width], sum = 0;
  vector.store(parts);
  for (const Real part : parts) sum += part;
  return sum;
}

constexpr std::int64_t side = 16;  // of a transposed square: a cache line of floats

/// to[column][row] = from[row][column], side x side.
template <typename T>
inline void load_transposed(const T* from, std::int64_t from_row, std::int64_t from_column, Real* to) {
  for (std::int64_t row = 0; row < side; ++row, from += from_row)
    for (std::int64_t column = 0; column < side; ++column)
      to[column * side + row] = static_cast<Real>(from[column * from_column]);
}
inline void load_transposed(const Real* from, std::int64_t from_row, std::int64_t from_column, Real* to) {
  if (from_column == 1) return transpose_rows(from, from_row, side, side, side, 1, to, side);
  load_transposed<Real>(from, from_row, from_column, to);
}

/// scores[key][query] += mask[query][key]. With `hides`, zeros of the mask add -inf and other values nothing.
template <bool hides, typename T>
void add_transposed(const T* mask, std::int64_t mask_row, std::int64_t mask_column, std::int64_t tile,
                    std::int64_t keys, Real* scores) {
  Real part[side * side];
  for (std::int64_t query = 0; query < tile; query += side)
    for (std::int64_t key = 0; key < keys; key += side) {
      load_transposed(mask + query * mask_row + key * mask_column, mask_row, mask_column, part);
      for (std::int64_t k = 0; k < side; ++k)
        for (std::int64_t q = 0; q < side; q += Vec::width) {
          Real* const at = scores + (key + k) * tile + query + q;
          Vec value = Vec::load(part + k * side + q);
          if (hides) value = {value.x == Vec::of(0).x ? Vec::of(-infinity).x : Vec::of(0).x};
          (Vec::load(at) + value).store(at);
        }
    }
}

/// to[query][key] += from[key][query]
void add_back(const Real* from, std::int64_t tile, std::int64_t keys, Real* to, std::int64_t to_row) {
  Real part[side * side];
  for (std::int64_t query = 0; query < tile; query += side)
    for (std::int64_t key = 0; key < keys; key += side) {
      load_transposed(from + key * tile + query, tile, 1, part);
      for (std::int64_t q = 0; q < side; ++q)
        for (std::int64_t k = 0; k < side; k += Vec::width) {
          Real* const at = to + (query + q) * to_row + key + k;
          (Vec::load(at) + Vec::load(part + q * side + k)).store(at);
        }
    }
}

/// Adds masks and position embeddings to the scores of one key block.
void add_masks(const Head& head, std::int64_t query, std::int64_t tile, std::int64_t key, Real* scores) {
  if (head.key_padding)
    for (std::int64_t k = 0; k < head.block; ++k) {
      const Vec value = Vec::of(head.key_padding[key + k]);
      for (std::int64_t q = 0; q < tile; q += Vec::width) {
        Real* at = scores + k * tile + q;
        (Vec::load(at) + value).store(at);
      }
    }
  if (head.rpe)
    add_transposed<false>(head.rpe + query * head.rpe_row + key * head.rpe_column, head.rpe_row, head.rpe_column, tile,
                          head.block, scores);
  const std::int64_t mask = query * head.mask_row + key * head.mask_column;
  if (head.seen)
    add_transposed<true>(head.seen + mask, head.mask_row, head.mask_column, tile, head.block, scores);
  else if (head.attn_mask && head.mask_multiplies)
    add_transposed<true>(head.attn_mask + mask, head.mask_row, head.mask_column, tile, head.block, scores);
  else if (head.attn_mask)
    add_transposed<false>(head.attn_mask + mask, head.mask_row, head.mask_column, tile, head.block, scores);
}

/// [key][query] products of the rows of some key blocks with a packed tile. Prefetching the next block's rows was
/// measured to be slower.
void times_blocks(const Head& head, const Real* rows, std::int64_t row, const std::int32_t* columns, std::int64_t count,
                  const Real* packed, std::int64_t tile, Real* to) {
  for (std::int64_t i = 0; i < count; ++i)
    multiply<false, false>({head.block, tile, head.dim, rows + columns[i] * head.block * row, row, packed, tile,
                            to + i * head.block * tile, tile, nullptr, 1, 0, 0});
}

void scores_of(const Head& head, std::int64_t query, std::int64_t tile, const std::int32_t* columns, std::int64_t count,
               const Real* packed, Real* scores) {
  times_blocks(head, head.k, head.k_row, columns, count, packed, tile, scores);
  if (!head.key_padding && !head.rpe && !head.attn_mask && !head.seen) return;
  for (std::int64_t i = 0; i < count; ++i)
    add_masks(head, query, tile, columns[i] * head.block, scores + i * head.block * tile);
}

/// to[query][dim] += weights^T rows, with the rows of the key blocks.
void add_weighted(const Head& head, const Real* weights, std::int64_t tile, const Real* rows, std::int64_t row,
                  const std::int32_t* columns, std::int64_t count, Real* to) {
  const std::int64_t most = near_keys > head.block ? near_keys / head.block : 1;
  for (std::int64_t i = 0; i < count; i += most)
    multiply<true, true>({tile, head.dim, head.block, weights + i * head.block * tile, tile, rows, row, to, head.dim,
                          columns + i, count - i < most ? count - i : most, head.block * tile, head.block * row});
}

/// Replaces scores by exp(score - maximum). Updates the maximum and the sum of each query; `rescale` is the factor for
/// sums of earlier chunks.
void softmax_chunk(Real* scores, std::int64_t keys, std::int64_t tile, Real* maximum, Real* sum, Real* rescale) {
  for (std::int64_t q = 0; q < tile; q += Vec::width) {
    const Vec old = Vec::load(maximum + q);
    Vec most = old, other = old;
    for (std::int64_t k = 0; k < keys; k += 2) {
      most = max_of(most, Vec::load(scores + k * tile + q));
      other = max_of(other, Vec::load(scores + (k + 1) * tile + q));
    }
    most = max_of(most, other);
    // If all scores so far are -inf, subtracting the maximum would give NaN.
    const Vec from = {most.x == Vec::of(-infinity).x ? Vec::of(0).x : most.x};
    // Subtracts before multiplying by log2(e): the mask may be the lowest float, which times 1.44 is infinite.
    const Vec shift = from * Vec::of(-1);
    const Vec again = exp2_of((old + shift) * Vec::of(log2_e));
    Vec total = Vec::load(sum + q) * again;
    for (std::int64_t k = 0; k < keys; ++k) {
      const Vec e = exp2_of((Vec::load(scores + k * tile + q) + shift) * Vec::of(log2_e));
      e.store(scores + k * tile + q);
      total = total + e;
    }
    most.store(maximum + q);
    total.store(sum + q);
    again.store(rescale + q);
  }
}

/// Parts of the scratch memory. Each is a multiple of a cache line.
struct Scratch {
  Real *packed, *packed2, *sums, *rows, *scores, *scores2, *maximum, *sum, *rescale;

  Scratch(Real* at, std::int64_t dim)
      : packed(at),
        packed2(packed + tile_rows * dim),
        sums(packed2 + tile_rows * dim),
        rows(sums + tile_rows * dim),
        scores(rows + tile_rows * dim),
        scores2(scores + chunk_elements),
        maximum(scores2 + chunk_elements),
        sum(maximum + tile_rows),
        rescale(sum + tile_rows) {}
};

void forward_tile(const Head& head, std::int64_t query, std::int64_t tile, const std::int32_t* columns,
                  std::int64_t count, const Scratch& s) {
  const std::int64_t dim = head.dim;
  transpose_rows(head.q + query * head.q_row, head.q_row, tile, tile, dim, head.scale, s.packed, tile);
  for (std::int64_t i = 0; i < tile * dim; ++i) s.sums[i] = 0;
  for (std::int64_t q = 0; q < tile; ++q) {
    s.maximum[q] = -infinity;
    s.sum[q] = 0;
  }
  const std::int64_t most = chunk_elements / (tile * head.block);
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t blocks = count - begin < most ? count - begin : most;
    scores_of(head, query, tile, columns + begin, blocks, s.packed, s.scores);
    softmax_chunk(s.scores, blocks * head.block, tile, s.maximum, s.sum, s.rescale);
    if (begin)
      for (std::int64_t q = 0; q < tile; ++q)
        for (std::int64_t i = 0; i < dim; ++i) s.sums[q * dim + i] *= s.rescale[q];
    add_weighted(head, s.scores, tile, head.v, head.v_row, columns + begin, blocks, s.sums);
  }
  for (std::int64_t q = 0; q < tile; ++q) {
    const Real sum = s.sum[q];
    const Real inverse = sum == 0 ? 0 : 1 / sum;
    Real* out = head.out + (query + q) * dim;
    for (std::int64_t i = 0; i < dim; ++i) out[i] = s.sums[q * dim + i] * inverse;
    // Stored separately: added to a maximum of -1e9, the logarithm of the sum would be lost.
    head.stats[2 * (query + q)] = sum == 0 ? 0 : s.maximum[q];
    head.stats[2 * (query + q) + 1] = inverse;
  }
}

void backward_tile(const Head& head, const AttentionGrads<Real>& grads, std::int64_t query, std::int64_t tile,
                   const std::int32_t* columns, std::int64_t count, const Scratch& s) {
  const std::int64_t dim = head.dim, block = head.block;
  const Real* grad_out = grads.grad_out + query * dim;
  Real* const delta = s.sum;
  Real* const shift = s.maximum;
  Real* const inverse = s.rescale;
  transpose_rows(head.q + query * head.q_row, head.q_row, tile, tile, dim, head.scale, s.packed, tile);
  transpose_rows(grad_out, dim, tile, tile, dim, 1, s.packed2, tile);
  for (std::int64_t q = 0; q < tile; ++q) {
    const Real* const out = head.out + (query + q) * dim;
    const Real* const from = head.q + (query + q) * head.q_row;
    Vec product = Vec::of(0);
    for (std::int64_t i = 0; i < dim; i += Vec::width) {
      product = Vec::fma(Vec::load(grad_out + q * dim + i), Vec::load(out + i), product);
      (Vec::load(from + i) * Vec::of(head.scale)).store(s.rows + q * dim + i);
      Vec::of(0).store(s.sums + q * dim + i);
    }
    delta[q] = -sum_of(product);
    shift[q] = -head.stats[2 * (query + q)];
    inverse[q] = head.stats[2 * (query + q) + 1];
  }
  const std::int64_t most = chunk_elements / (tile * block);
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t blocks = count - begin < most ? count - begin : most;
    const std::int32_t* const there = columns + begin;
    scores_of(head, query, tile, there, blocks, s.packed, s.scores);
    times_blocks(head, head.v, head.v_row, there, blocks, s.packed2, tile, s.scores2);
    for (std::int64_t k = 0; k < blocks * block; ++k)
      for (std::int64_t q = 0; q < tile; q += Vec::width) {
        Real* const score = s.scores + k * tile + q;
        Real* const grad = s.scores2 + k * tile + q;
        const Vec weight =
            exp2_of((Vec::load(score) + Vec::load(shift + q)) * Vec::of(log2_e)) * Vec::load(inverse + q);
        weight.store(score);
        (weight * (Vec::load(grad) + Vec::load(delta + q))).store(grad);
      }
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t key = there[i] * block;
      const std::int64_t at = i * block * tile;
      multiply<false, true>(
          {block, dim, tile, s.scores + at, tile, grad_out, dim, grads.dv + key * dim, dim, nullptr, 1, 0, 0});
      multiply<false, true>(
          {block, dim, tile, s.scores2 + at, tile, s.rows, dim, grads.dk + key * dim, dim, nullptr, 1, 0, 0});
      if (grads.drpe) add_back(s.scores2 + at, tile, block, grads.drpe + query * grads.drpe_row + key, grads.drpe_row);
    }
    add_weighted(head, s.scores2, tile, head.k, head.k_row, there, blocks, s.sums);
  }
  for (std::int64_t i = 0; i < tile * dim; ++i) grads.dq[query * dim + i] += s.sums[i] * head.scale;
}

/// Calls call(query, tile, columns, count) for the tiles of a square's query blocks, with their key blocks in the
/// square.
template <typename Tile>
inline void each_tile(const Head& head, const BlockSquare& square, const Tile& call) {
  for (std::int64_t block_row = square.row; block_row < square.row_end; ++block_row) {
    std::int64_t begin = head.first[block_row], end = head.first[block_row + 1];
    while (begin < end && head.columns[begin] < square.column) ++begin;
    while (begin < end && head.columns[end - 1] >= square.column_end) --end;
    for (std::int64_t row = 0; row < head.block; row += tile_rows)
      call(block_row * head.block + row, head.block - row < tile_rows ? head.block - row : tile_rows,
           head.columns + begin, end - begin);
  }
}

}  // namespace

inline std::int64_t scratch_elements(std::int64_t dim) {
  return 4 * tile_rows * dim + 2 * chunk_elements + 3 * tile_rows;
}

void forward(const Head& head, std::int64_t block_row, Real* scratch) {
  const Scratch s(scratch, head.dim);
  each_tile(head, {block_row, block_row + 1, 0, std::int64_t{1} << 31},
            [&](std::int64_t query, std::int64_t tile, const std::int32_t* columns, std::int64_t count) {
              forward_tile(head, query, tile, columns, count, s);
            });
}

void backward(const Head& head, const AttentionGrads<Real>& grads, const BlockSquare& square, Real* scratch) {
  const Scratch s(scratch, head.dim);
  each_tile(head, square, [&](std::int64_t query, std::int64_t tile, const std::int32_t* columns, std::int64_t count) {
    if (count) backward_tile(head, grads, query, tile, columns, count, s);
  });
}

ANYACCEL_ISA_END
#endif
