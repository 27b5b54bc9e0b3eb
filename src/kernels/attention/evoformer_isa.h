// Evoformer attention for one head, with both biases, in float and double.
//
// Scores are stored as [query][key] with keys along the vector, because both biases and the
// gradient of bias2 have this layout. query_tile_isa.h, which uses [key][query], is as fast in the
// forward pass (benchmarks/small_products.bench.py), but it sums in a different order and requires
// a head dimension that is a multiple of the vector width. Keys (and in the backward pass also
// values) are packed into panels, [dim][32 keys], which matrix products read sequentially. A tile
// of queries processes the keys in chunks and carries the running maximum and sum of the softmax
// from chunk to chunk.
#if defined(ANYACCEL_ATTENTION_EVOFORMER_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_ATTENTION_EVOFORMER_ISA_H)
#undef ANYACCEL_ATTENTION_EVOFORMER_ISA_H
#else
#define ANYACCEL_ATTENTION_EVOFORMER_ISA_H
#endif

#include "kernels/attention/evoformer.h"
#include "kernels/simd/math_isa.h"
#include "kernels/simd/products_isa.h"
#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/transpose_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

using Head = EvoformerHead<Real>;
using Grads = EvoformerGrads<Real>;

constexpr std::int64_t panel = 32;  // number of keys per panel
// Number of keys per chunk, chosen so that a row of scores stays in the L1 cache.
constexpr std::int64_t chunk = 256;
// Number of queries per tile in the backward pass. dk and dv are read and written once per tile.
constexpr std::int64_t backward_tile = 64;
/// Largest magnitude of `lse` for which attention weights are computed from `lse`. In a larger
/// value, for example with a mask of -1e9, the logarithm of the sum is lost to rounding.
constexpr Real exact_lse = 128;

constexpr std::int64_t whole(std::int64_t n, std::int64_t of) { return (n + of - 1) / of * of; }
constexpr std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Sizes of the packed arrays of a head.
struct Packed {
  std::int64_t keys, width, dim;

  Packed(std::int64_t all_keys, std::int64_t head_dim)
      : keys(whole(all_keys, panel)), width(whole(head_dim, 16)), dim(head_dim) {}
  std::int64_t panels() const { return keys * dim; }
  std::int64_t rows() const { return keys * width; }
};

/// Sets to[row][column] = from[row][column] * factor, zero-padded to `width` columns.
template <typename S>
void pack_rows(const S* from, std::int64_t from_row, std::int64_t rows, std::int64_t dim,
               std::int64_t width, Real factor, Real* to) {
  for (std::int64_t row = 0; row < rows; ++row, from += from_row, to += width) {
    each_vector(dim, [&](std::int64_t i, std::int64_t n) {
      (load_some(from + i, n) * Vec::of(factor)).store(to + i);
    });
    for (std::int64_t i = whole(dim, Vec::width); i < width; ++i) to[i] = 0;
  }
}

/// Packs rows into panels. Rows past the last one are zero-filled.
void pack_panels(const Real* from, std::int64_t rows, const Packed& sizes, Real* to) {
  for (std::int64_t first = 0; first < sizes.keys; first += panel, to += panel * sizes.dim)
    transpose_rows(from + first * sizes.width, sizes.width, least(panel, rows - first), panel,
                   sizes.dim, 1, to, panel);
}

/// Converts bias1 to Real, or writes zeros if it is null. Writes -inf past the last key to mask the
/// padding.
template <typename S>
void pack_bias(const Head& head, std::int64_t keys, Real* to) {
  const S* const bias = static_cast<const S*>(head.bias1);
  each_vector(head.keys, [&](std::int64_t i, std::int64_t n) {
    (bias ? load_some(bias + i, n) : Vec::of(0)).store(to + i);
  });
  for (std::int64_t i = head.keys; i < keys; ++i) to[i] = -infinity;
}

/// Sets to[row][key] to the dot products of `rows` and the `keys` packed keys in `panels`.
void times_panels(const Real* rows, std::int64_t count, const Packed& sizes, const Real* panels,
                  std::int64_t keys, Real* to) {
  for (std::int64_t key = 0; key < keys; key += panel)
    multiply<false, false>({count, panel, sizes.dim, rows, sizes.width, panels + key * sizes.dim,
                            panel, to + key, chunk, nullptr, 1, 0, 0});
}

/// Calls function(key, bias2) for each vector of a row of scores. bias2 is 0 past the last key.
template <typename S, typename Function>
inline __attribute__((always_inline)) void each_score(const Head& head, std::int64_t query,
                                                      std::int64_t key, std::int64_t keys,
                                                      const Function& function) {
  if (!head.bias2) {
    for (std::int64_t i = 0; i < keys; i += Vec::width) function(i, Vec::of(0));
    return;
  }
  const S* const bias = static_cast<const S*>(head.bias2) + query * head.bias2_row + key;
  const std::int64_t there = least(keys, head.keys - key);
  std::int64_t i = 0;
  for (; i + Vec::width <= there; i += Vec::width) function(i, Vec::load(bias + i));
  for (; i < keys; i += Vec::width)
    function(i, i < there ? load_some(bias + i, there - i) : Vec::of(0));
}

/// Adds the biases to a row of scores, and replaces the scores with exp(score - maximum). Updates
/// the maximum and the sum, and returns the rescale factor for the sums of earlier chunks.
template <typename S>
inline Real softmax_row(const Head& head, std::int64_t query, std::int64_t key, std::int64_t keys,
                        const Real* bias1, Real* scores, Real* maximum, Real* sum) {
  Vec most = Vec::of(*maximum);
  each_score<S>(
      head, query, key, keys, [&](std::int64_t i, Vec bias2) __attribute__((always_inline)) {
        const Vec score = Vec::load(scores + i) + (Vec::load(bias1 + i) + bias2);
        score.store(scores + i);
        most = max_of(most, score);
      });
  const Real before = *maximum, now = greatest(most);
  // If all scores so far are -inf, subtracting the maximum would produce NaN.
  const Real from = now == -infinity ? 0 : now;
  // Subtract before multiplying by log2(e), because the bias may be the lowest float, and 1.44
  // times that value overflows.
  const Vec shift = Vec::of(-from), factor = Vec::of(log2_e);
  Vec all = Vec::of(0), other = Vec::of(0);
  for (std::int64_t i = 0; i < keys; i += 2 * Vec::width) {
    const Vec e = exp2_of((Vec::load(scores + i) + shift) * factor);
    const Vec f = exp2_of((Vec::load(scores + i + Vec::width) + shift) * factor);
    e.store(scores + i);
    f.store(scores + i + Vec::width);
    all = all + e;
    other = other + f;
  }
  Real again[Vec::width];
  exp2_of(Vec::of((before - from) * log2_e)).store(again);
  *maximum = now;
  *sum = *sum * again[0] + total(all + other);
  return again[0];
}

/// Allocates arrays from the scratch memory. The size of each is rounded up to a multiple of 16
/// elements.
struct Parts {
  Real* at;
  Real* next(std::int64_t elements) {
    Real* const out = at;
    at += whole(elements, 16);
    return out;
  }
};

struct ForwardScratch {
  Real *keys, *values, *bias1, *q, *sums, *scores, *maximum, *sum;

  ForwardScratch(Real* memory, const Packed& sizes) {
    Parts parts{memory};
    keys = parts.next(sizes.panels());
    values = parts.next(sizes.rows());
    bias1 = parts.next(sizes.keys);
    q = parts.next(evoformer_tile * sizes.width);
    sums = parts.next(evoformer_tile * sizes.width);
    scores = parts.next(evoformer_tile * chunk);
    maximum = parts.next(evoformer_tile);
    sum = parts.next(evoformer_tile);
  }
};

template <typename S>
void forward_tile(const Head& head, std::int64_t query, std::int64_t rows, const Packed& sizes,
                  const ForwardScratch& s) {
  const std::int64_t width = sizes.width;
  pack_rows(static_cast<const S*>(head.q) + query * head.q_row, head.q_row, rows, head.dim, width,
            head.scale, s.q);
  for (std::int64_t i = 0; i < rows * width; ++i) s.sums[i] = 0;
  for (std::int64_t q = 0; q < rows; ++q) {
    s.maximum[q] = -infinity;
    s.sum[q] = 0;
  }
  for (std::int64_t key = 0; key < head.keys; key += chunk) {
    const std::int64_t keys = least(chunk, sizes.keys - key);
    times_panels(s.q, rows, sizes, s.keys + key * sizes.dim, keys, s.scores);
    for (std::int64_t q = 0; q < rows; ++q) {
      const Real again = softmax_row<S>(head, query + q, key, keys, s.bias1 + key,
                                        s.scores + q * chunk, s.maximum + q, s.sum + q);
      if (key)
        for (std::int64_t i = 0; i < width; ++i) s.sums[q * width + i] *= again;
    }
    multiply<false, true>({rows, width, least(keys, head.keys - key), s.scores, chunk,
                           s.values + key * width, width, s.sums, width, nullptr, 1, 0, 0});
  }
  for (std::int64_t q = 0; q < rows; ++q) {
    const Real sum = s.sum[q];
    const Vec inverse = Vec::of(sum == 0 ? 0 : 1 / sum);
    S* const out = static_cast<S*>(head.out) + (query + q) * head.out_row;
    each_vector(head.dim, [&](std::int64_t i, std::int64_t n) {
      store_some(Vec::load(s.sums + q * width + i) * inverse, out + i, n);
    });
    head.lse[query + q] =
        sum == 0 ? -infinity : s.maximum[q] + static_cast<Real>(__builtin_log(sum));
  }
}

struct BackwardScratch {
  Real *keys, *values, *rows, *dk, *dv, *bias1, *dbias1, *q, *grad, *sums, *scores, *changes,
      *shift, *inverse, *delta;

  BackwardScratch(Real* memory, const Packed& sizes) {
    Parts parts{memory};
    keys = parts.next(sizes.panels());
    values = parts.next(sizes.panels());
    rows = parts.next(sizes.rows());
    dk = parts.next(sizes.rows());
    dv = parts.next(sizes.rows());
    bias1 = parts.next(sizes.keys);
    dbias1 = parts.next(sizes.keys);
    q = parts.next(backward_tile * sizes.width);
    grad = parts.next(backward_tile * sizes.width);
    sums = parts.next(backward_tile * sizes.width);
    scores = parts.next(backward_tile * chunk);
    changes = parts.next(backward_tile * chunk);
    shift = parts.next(backward_tile);
    inverse = parts.next(backward_tile);
    delta = parts.next(backward_tile);
  }
};

/// Computes `shift` and `inverse` for a tile, such that weight = exp(score + shift) * inverse. They
/// are computed from `lse`, or from recomputed scores if the magnitude of `lse` exceeds exact_lse.
template <typename S>
void find_weights(const Head& head, std::int64_t query, std::int64_t rows, const Packed& sizes,
                  const BackwardScratch& s) {
  bool exact = true;
  for (std::int64_t q = 0; q < rows; ++q) {
    const Real lse = head.lse[query + q];
    const bool none = lse == -infinity;
    s.shift[q] = none ? 0 : -lse;
    s.inverse[q] = none ? 0 : 1;
    exact = exact && (none || !(lse > exact_lse || lse < -exact_lse));
  }
  if (exact) return;
  for (std::int64_t q = 0; q < rows; ++q) {
    s.shift[q] = -infinity;
    s.inverse[q] = 0;
  }
  for (std::int64_t key = 0; key < head.keys; key += chunk) {
    const std::int64_t keys = least(chunk, sizes.keys - key);
    times_panels(s.q, rows, sizes, s.keys + key * sizes.dim, keys, s.scores);
    for (std::int64_t q = 0; q < rows; ++q)
      softmax_row<S>(head, query + q, key, keys, s.bias1 + key, s.scores + q * chunk, s.shift + q,
                     s.inverse + q);
  }
  for (std::int64_t q = 0; q < rows; ++q) {
    const Real sum = s.inverse[q];
    s.shift[q] = sum == 0 ? 0 : -s.shift[q];
    s.inverse[q] = sum == 0 ? 0 : 1 / sum;
  }
}

/// Replaces the scores with attention weights. Replaces the dot products of output gradients and
/// values with the score gradients.
template <typename S>
inline void change_row(const Head& head, const Grads& grads, std::int64_t query, std::int64_t q,
                       std::int64_t key, std::int64_t keys, const BackwardScratch& s) {
  Real* const scores = s.scores + q * chunk;
  Real* const changes = s.changes + q * chunk;
  const Real* const bias1 = s.bias1 + key;
  Real* const dbias1 = s.dbias1 + key;
  const std::int64_t there = least(keys, head.keys - key);
  Real* const dbias2 = grads.dbias2 ? grads.dbias2 + (query + q) * head.keys + key : nullptr;
  const Vec shift = Vec::of(s.shift[q]), inverse = Vec::of(s.inverse[q]),
            delta = Vec::of(s.delta[q]);
  const Vec factor = Vec::of(log2_e);
  each_score<S>(
      head, query + q, key, keys, [&](std::int64_t i, Vec bias2) __attribute__((always_inline)) {
        const Vec score = Vec::load(scores + i) + (Vec::load(bias1 + i) + bias2);
        const Vec weight = exp2_of((score + shift) * factor) * inverse;
        const Vec change = weight * (Vec::load(changes + i) + delta);
        weight.store(scores + i);
        change.store(changes + i);
        (Vec::load(dbias1 + i) + change).store(dbias1 + i);
        if (!dbias2) return;
        if (i + Vec::width <= there)
          (Vec::load(dbias2 + i) + change).store(dbias2 + i);
        else if (i < there)
          store_some(load_some(dbias2 + i, there - i) + change, dbias2 + i, there - i);
      });
}

template <typename S>
void backward_tile_of(const Head& head, const Grads& grads, std::int64_t query, std::int64_t rows,
                      const Packed& sizes, const BackwardScratch& s) {
  const std::int64_t width = sizes.width;
  const S* const grad = static_cast<const S*>(grads.grad_out) + query * grads.grad_row;
  pack_rows(static_cast<const S*>(head.q) + query * head.q_row, head.q_row, rows, head.dim, width,
            head.scale, s.q);
  pack_rows(grad, grads.grad_row, rows, head.dim, width, 1, s.grad);
  find_weights<S>(head, query, rows, sizes, s);
  for (std::int64_t q = 0; q < rows; ++q) {
    const S* const out = static_cast<const S*>(head.out) + (query + q) * head.out_row;
    Vec product = Vec::of(0);
    each_vector(head.dim, [&](std::int64_t i, std::int64_t n) {
      product = Vec::fma(load_some(out + i, n), Vec::load(s.grad + q * width + i), product);
    });
    s.delta[q] = -total(product);
  }
  for (std::int64_t i = 0; i < rows * width; ++i) s.sums[i] = 0;
  for (std::int64_t key = 0; key < head.keys; key += chunk) {
    const std::int64_t keys = least(chunk, sizes.keys - key), there = least(keys, head.keys - key);
    times_panels(s.q, rows, sizes, s.keys + key * sizes.dim, keys, s.scores);
    times_panels(s.grad, rows, sizes, s.values + key * sizes.dim, keys, s.changes);
    for (std::int64_t q = 0; q < rows; ++q) change_row<S>(head, grads, query, q, key, keys, s);
    multiply<true, true>({there, width, rows, s.scores, chunk, s.grad, width, s.dv + key * width,
                          width, nullptr, 1, 0, 0});
    multiply<true, true>({there, width, rows, s.changes, chunk, s.q, width, s.dk + key * width,
                          width, nullptr, 1, 0, 0});
    multiply<false, true>({rows, width, there, s.changes, chunk, s.rows + key * width, width,
                           s.sums, width, nullptr, 1, 0, 0});
  }
  const Vec scale = Vec::of(head.scale);
  for (std::int64_t q = 0; q < rows; ++q) {
    S* const dq = static_cast<S*>(grads.dq) + (query + q) * grads.dq_row;
    each_vector(head.dim, [&](std::int64_t i, std::int64_t n) {
      store_some(Vec::load(s.sums + q * width + i) * scale, dq + i, n);
    });
  }
}

template <typename S>
void unpack_rows(const Real* from, std::int64_t width, std::int64_t rows, std::int64_t dim,
                 void* to, std::int64_t to_row) {
  for (std::int64_t row = 0; row < rows; ++row)
    each_vector(dim, [&](std::int64_t i, std::int64_t n) {
      store_some(Vec::load(from + row * width + i), static_cast<S*>(to) + row * to_row + i, n);
    });
}

}  // namespace

inline std::int64_t forward_elements(std::int64_t keys, std::int64_t dim) {
  const Packed sizes(keys, dim);
  return sizes.panels() + sizes.rows() + sizes.keys +
         evoformer_tile * (2 * sizes.width + chunk + 2) + 16 * 8;
}

inline std::int64_t backward_elements(std::int64_t keys, std::int64_t dim) {
  const Packed sizes(keys, dim);
  return 2 * sizes.panels() + 3 * sizes.rows() + 2 * sizes.keys +
         backward_tile * (3 * sizes.width + 2 * chunk + 3) + 16 * 15;
}

template <typename S>
void forward(const Head& head, std::int64_t begin, std::int64_t end, Real* scratch) {
  const Packed sizes(head.keys, head.dim);
  const ForwardScratch s(scratch, sizes);
  // The value buffer temporarily holds the unpacked keys.
  pack_rows(static_cast<const S*>(head.k), head.k_row, head.keys, head.dim, sizes.width, 1,
            s.values);
  pack_panels(s.values, head.keys, sizes, s.keys);
  pack_rows(static_cast<const S*>(head.v), head.v_row, head.keys, head.dim, sizes.width, 1,
            s.values);
  pack_bias<S>(head, sizes.keys, s.bias1);
  for (std::int64_t query = begin; query < end; query += evoformer_tile)
    forward_tile<S>(head, query, least(evoformer_tile, end - query), sizes, s);
}

template <typename S>
void backward(const Head& head, const Grads& grads, Real* scratch) {
  const Packed sizes(head.keys, head.dim);
  const BackwardScratch s(scratch, sizes);
  pack_rows(static_cast<const S*>(head.v), head.v_row, head.keys, head.dim, sizes.width, 1, s.rows);
  pack_panels(s.rows, head.keys, sizes, s.values);
  pack_rows(static_cast<const S*>(head.k), head.k_row, head.keys, head.dim, sizes.width, 1, s.rows);
  pack_panels(s.rows, head.keys, sizes, s.keys);
  pack_bias<S>(head, sizes.keys, s.bias1);
  for (std::int64_t i = 0; i < sizes.rows(); ++i) s.dk[i] = s.dv[i] = 0;
  for (std::int64_t i = 0; i < sizes.keys; ++i) s.dbias1[i] = 0;
  for (std::int64_t query = 0; query < head.queries; query += backward_tile)
    backward_tile_of<S>(head, grads, query, least(backward_tile, head.queries - query), sizes, s);
  unpack_rows<S>(s.dk, sizes.width, head.keys, head.dim, grads.dk, grads.dk_row);
  unpack_rows<S>(s.dv, sizes.width, head.keys, head.dim, grads.dv, grads.dv_row);
  if (grads.dbias1)
    for (std::int64_t i = 0; i < head.keys; ++i) grads.dbias1[i] = s.dbias1[i];
}

ANYACCEL_ISA_END
#endif
