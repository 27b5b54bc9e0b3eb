// Softmax and gradients for a tile of queries in one attention head, in float and double.
//
// Scores are stored transposed, [key][query]. Queries lie along the vector, so the softmax does not
// need horizontal sums, and keys and values are read in place. A tile processes the keys in chunks
// whose scores stay in the L2 cache, and carries the running maximum and sum of the softmax from
// chunk to chunk. A tile has `rows` queries, padded in memory to `width`, a multiple of 16.
#if defined(ANYACCEL_ATTENTION_QUERY_TILE_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_ATTENTION_QUERY_TILE_ISA_H)
#undef ANYACCEL_ATTENTION_QUERY_TILE_ISA_H
#else
#define ANYACCEL_ATTENTION_QUERY_TILE_ISA_H
#endif

#include "kernels/simd/math_isa.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/transpose_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr std::int64_t tile_queries = 64;       // maximum number of queries per tile
constexpr std::int64_t chunk_elements = 16384;  // number of scores per chunk
constexpr std::int64_t near_keys = 64;          // number of keys whose values stay in the L1 cache

/// Arrays in the scratch memory.
struct Scratch {
  Real *packed, *packed2, *sums, *rows, *maximum, *sum, *rescale, *scores, *scores2, *scores3;

  /// Returns the size of the scratch memory in elements, with space for `arrays` score chunks.
  static constexpr std::int64_t elements(std::int64_t dim, std::int64_t arrays) {
    return tile_queries * (4 * dim + 3) + arrays * chunk_elements;
  }
  Scratch(Real* at, std::int64_t dim)
      : packed(at),
        packed2(packed + tile_queries * dim),
        sums(packed2 + tile_queries * dim),
        rows(sums + tile_queries * dim),
        maximum(rows + tile_queries * dim),
        sum(maximum + tile_queries),
        rescale(sum + tile_queries),
        scores(rescale + tile_queries),
        scores2(scores + chunk_elements),
        scores3(scores2 + chunk_elements) {}
};

inline void start_softmax(const Real* q, std::int64_t q_row, std::int64_t rows, std::int64_t width,
                          std::int64_t dim, Real scale, const Scratch& s) {
  transpose_rows(q, q_row, rows, width, dim, scale, s.packed, width);
  for (std::int64_t i = 0; i < rows * dim; ++i) s.sums[i] = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    s.maximum[i] = -infinity;
    s.sum[i] = 0;
  }
}

/// Sets to[key][query] to the dot products of rows (keys or values) and packed queries or
/// gradients.
inline void times_rows(const Real* rows, std::int64_t row, std::int64_t count, std::int64_t dim,
                       const Real* packed, std::int64_t width, Real* to) {
  multiply<false, false>(
      {count, width, dim, rows, row, packed, width, to, width, nullptr, 1, 0, 0});
}

/// scores[key][query] += values[key * step]
inline void add_to_keys(const Real* values, std::int64_t step, std::int64_t keys,
                        std::int64_t width, Real* scores) {
  for (std::int64_t k = 0; k < keys; ++k) {
    const Vec value = Vec::of(values[k * step]);
    for (std::int64_t q = 0; q < width; q += Vec::width) {
      Real* const at = scores + k * width + q;
      (Vec::load(at) + value).store(at);
    }
  }
}

constexpr std::int64_t side = 16;  // side length of a transposed square; a cache line of floats

/// Sets to[column][row] = from[row][column] for part of a side x side square. Missing rows are
/// zero-filled.
template <typename T>
inline void load_transposed(const T* from, std::int64_t from_row, std::int64_t from_column,
                            std::int64_t rows, std::int64_t columns, Real* to) {
  for (std::int64_t row = 0; row < side; ++row, from += from_row)
    for (std::int64_t column = 0; column < columns; ++column)
      to[column * side + row] = row < rows ? static_cast<Real>(from[column * from_column]) : 0;
}
inline void load_transposed(const Real* from, std::int64_t from_row, std::int64_t from_column,
                            std::int64_t rows, std::int64_t columns, Real* to) {
  if (from_column == 1) return transpose_rows(from, from_row, rows, side, columns, 1, to, side);
  load_transposed<Real>(from, from_row, from_column, rows, columns, to);
}

/// Computes scores[key][query] += mask[query][key]. If `hides` is set, zeros in the mask add -inf
/// and other values are ignored.
template <bool hides, typename T>
void add_transposed(const T* mask, std::int64_t mask_row, std::int64_t mask_column,
                    std::int64_t rows, std::int64_t width, std::int64_t keys, Real* scores) {
  Real part[side * side];
  for (std::int64_t query = 0; query < width; query += side)
    for (std::int64_t key = 0; key < keys; key += side) {
      const std::int64_t columns = keys - key < side ? keys - key : side;
      load_transposed(mask + query * mask_row + key * mask_column, mask_row, mask_column,
                      rows - query, columns, part);
      for (std::int64_t k = 0; k < columns; ++k)
        for (std::int64_t q = 0; q < side; q += Vec::width) {
          Real* const at = scores + (key + k) * width + query + q;
          Vec value = Vec::load(part + k * side + q);
          if (hides) value = {value.x == Vec::of(0).x ? Vec::of(-infinity).x : Vec::of(0).x};
          (Vec::load(at) + value).store(at);
        }
    }
}

/// Replaces the scores with exp(score - maximum), and updates the maximum and the sum of each
/// query. Sets `rescale` to the rescale factor for the sums of earlier chunks. `parts` is the
/// number of partial sums. Callers pass different numbers only because a change would alter their
/// results in the last bits; the speed is the same.
template <int parts>
inline void softmax_chunk(std::int64_t keys, std::int64_t width, const Scratch& s) {
  for (std::int64_t q = 0; q < width; q += Vec::width) {
    Real* const scores = s.scores + q;
    const Vec old = Vec::load(s.maximum + q);
    Vec most = old, other = old;
    std::int64_t k = 0;
    for (; k + 2 <= keys; k += 2) {
      most = max_of(most, Vec::load(scores + k * width));
      other = max_of(other, Vec::load(scores + (k + 1) * width));
    }
    if (k < keys) most = max_of(most, Vec::load(scores + k * width));
    most = max_of(most, other);
    // If all scores so far are -inf, subtracting the maximum would produce NaN.
    const Vec from = {most.x == Vec::of(-infinity).x ? Vec::of(0).x : most.x};
    // Subtract before multiplying by log2(e), because the mask may be the lowest float, and 1.44
    // times that value overflows.
    const Vec shift = from * Vec::of(-1);
    const Vec again = exp2_of((old + shift) * Vec::of(log2_e));
    Vec sum[parts] = {Vec::load(s.sum + q) * again};
    for (int i = 1; i < parts; ++i) sum[i] = Vec::of(0);
    const auto add = [&](std::int64_t key, int part) __attribute__((always_inline)) {
      const Vec e = exp2_of((Vec::load(scores + key * width) + shift) * Vec::of(log2_e));
      e.store(scores + key * width);
      sum[part] = sum[part] + e;
    };
    for (k = 0; k + parts <= keys; k += parts)
      for (int i = 0; i < parts; ++i) add(k + i, i);
    for (; k < keys; ++k) add(k, 0);
    for (int i = 1; i < parts; ++i) sum[0] = sum[0] + sum[i];
    most.store(s.maximum + q);
    sum[0].store(s.sum + q);
    again.store(s.rescale + q);
  }
}

/// Multiplies the sums by the rescale factors from the last chunk.
inline void rescale_sums(std::int64_t rows, std::int64_t dim, const Scratch& s) {
  for (std::int64_t q = 0; q < rows; ++q)
    for (std::int64_t i = 0; i < dim; ++i) s.sums[q * dim + i] *= s.rescale[q];
}

/// Divides the weighted sums by the softmax denominators. Writes each query's maximum and 1 / sum
/// to `stats`, unless it is null.
inline void finish_softmax(std::int64_t rows, std::int64_t dim, const Scratch& s, Real* out,
                           std::int64_t out_row, Real* stats) {
  for (std::int64_t q = 0; q < rows; ++q) {
    const Real sum = s.sum[q];
    const Real inverse = sum == 0 ? 0 : 1 / sum;
    for (std::int64_t i = 0; i < dim; ++i) out[q * out_row + i] = s.sums[q * dim + i] * inverse;
    if (!stats) continue;
    // Store the maximum and the sum separately. If the logarithm of the sum were added to a maximum
    // of -1e9, it would be lost to rounding.
    stats[2 * q] = sum == 0 ? 0 : s.maximum[q];
    stats[2 * q + 1] = inverse;
  }
}

/// Rows of a tile with a stride of `row` elements.
struct Rows {
  const Real* at;
  std::int64_t row;
};

/// Packs the queries and their output gradients, copies the scaled queries to `rows`, and clears
/// the sums. For each query, sets `maximum` to the negated maximum and `rescale` to 1 / sum, both
/// from `stats`, and `sum` to the negated dot product of the output and its gradient.
inline void start_gradients(const Rows& q, const Rows& grad, const Rows& out, const Real* stats,
                            std::int64_t rows, std::int64_t width, std::int64_t dim, Real scale,
                            const Scratch& s) {
  transpose_rows(q.at, q.row, rows, width, dim, scale, s.packed, width);
  transpose_rows(grad.at, grad.row, rows, width, dim, 1, s.packed2, width);
  for (std::int64_t i = 0; i < width; ++i) s.maximum[i] = s.sum[i] = s.rescale[i] = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    Vec product = Vec::of(0);
    for (std::int64_t d = 0; d < dim; d += Vec::width) {
      product = Vec::fma(Vec::load(grad.at + i * grad.row + d), Vec::load(out.at + i * out.row + d),
                         product);
      (Vec::load(q.at + i * q.row + d) * Vec::of(scale)).store(s.rows + i * dim + d);
      Vec::of(0).store(s.sums + i * dim + d);
    }
    Real parts[Vec::width], sum = 0;
    product.store(parts);
    for (const Real part : parts) sum += part;
    s.sum[i] = -sum;
    s.maximum[i] = -stats[2 * i];
    s.rescale[i] = stats[2 * i + 1];
  }
}

/// Replaces the scores with attention weights. Replaces the dot products of output gradients and
/// values in scores2 with the score gradients.
inline void differentiate_chunk(std::int64_t keys, std::int64_t width, const Scratch& s) {
  for (std::int64_t k = 0; k < keys; ++k)
    for (std::int64_t q = 0; q < width; q += Vec::width) {
      Real* const score = s.scores + k * width + q;
      Real* const change = s.scores2 + k * width + q;
      const Vec shifted = Vec::load(score) + Vec::load(s.maximum + q);
      const Vec weight = exp2_of(shifted * Vec::of(log2_e)) * Vec::load(s.rescale + q);
      weight.store(score);
      (weight * (Vec::load(change) + Vec::load(s.sum + q))).store(change);
    }
}

}  // namespace
ANYACCEL_ISA_END
#endif
