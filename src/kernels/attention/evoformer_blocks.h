// Evoformer attention for CUDA thread blocks. The code is also compiled for the host, where the
// tests run it. It uses plain pointers and is independent of torch and CUDA.
//
// `each(function)` runs one phase of a thread block: it calls function(lane) for all
// evoformer_lanes threads and then synchronizes them. Shared memory holds the scores of only one
// query tile and one key tile at a time.
#pragma once

#include <cmath>

#include "kernels/attention/running_softmax.h"
#include "kernels/optimizer/multi_tensor.h"

namespace anyaccel::ops {

constexpr int evoformer_lanes = 256;
constexpr int evoformer_block = 16;  // number of queries or keys per tile

/// A tensor [batch, entries, rows, heads, dim] with strides in elements. Biases have only some of
/// these dimensions.
template <typename Pointer>
struct EvoformerArray {
  Pointer at;
  std::int64_t batch, entry, row, head;
};

template <typename Real>
struct EvoformerLaunch {
  EvoformerArray<const void*> q, k, v, grad, bias1, bias2;
  EvoformerArray<void*> out, dq, dk, dv;
  EvoformerArray<Real*> lse;  ///< with a row stride of 1
  Real* dbias1;               ///< [batch][entries][keys], accumulated; may be null
  Real* dbias2;               ///< [batch][heads][queries][keys], accumulated; may be null
  /// [3][batch][entries][heads][queries]: shift, inverse and delta, computed by the first step of
  /// the backward pass.
  Real* rows;
  std::int64_t batch, entries, queries, keys, heads, dim;
  Real scale;

  ANYACCEL_ON_BOTH std::int64_t all_heads() const { return batch * entries * heads; }
};

ANYACCEL_ON_BOTH std::int64_t evoformer_tiles(std::int64_t rows) {
  return (rows + evoformer_block - 1) / evoformer_block;
}

/// Size of a thread block's shared memory, in elements of type Real. It is the same for all steps.
ANYACCEL_ON_BOTH std::int64_t evoformer_shared(std::int64_t dim) {
  return 6 * evoformer_block * dim + 2 * evoformer_block * evoformer_block + 4 * evoformer_block;
}

ANYACCEL_ON_BOTH float real_log(float x) { return logf(x); }
ANYACCEL_ON_BOTH double real_log(double x) { return log(x); }

template <typename Real>
ANYACCEL_ON_BOTH void add_atomically(Real* to, Real value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(to, value);
#else
  *to += value;
#endif
}

/// A thread block that processes one tile of a head, and its shared memory.
template <typename T, typename Real, typename Each>
struct EvoformerBlock {
  const EvoformerLaunch<Real>& c;
  const Each& each;
  std::int64_t index, batch, entry, head, first;
  Real *a, *b, *d, *e, *sums, *more, *scores, *changes, *shift, *inverse, *delta, *again;

  static constexpr int tile = evoformer_block;

  /// `tiles` is the number of tiles per head.
  ANYACCEL_ON_BOTH EvoformerBlock(const EvoformerLaunch<Real>& launch, const Each& phase,
                                  std::int64_t task, std::int64_t tiles, Real* memory)
      : c(launch), each(phase), index(task / tiles), first(task % tiles * tile) {
    head = index % c.heads;
    entry = index / c.heads % c.entries;
    batch = index / (c.heads * c.entries);
    const std::int64_t rows = tile * c.dim;
    a = memory;
    b = a + rows;
    d = b + rows;
    e = d + rows;
    sums = e + rows;
    more = sums + rows;
    scores = more + rows;
    changes = scores + tile * tile;
    shift = changes + tile * tile;
    inverse = shift + tile;
    delta = inverse + tile;
    again = delta + tile;
  }

  template <typename Pointer>
  ANYACCEL_ON_BOTH std::int64_t offset(const EvoformerArray<Pointer>& array,
                                       std::int64_t row) const {
    return batch * array.batch + entry * array.entry + row * array.row + head * array.head;
  }

  /// Sets to[row][i] = from[first_row + row][i] * factor. Rows past the last one are zero-filled.
  template <typename Pointer>
  ANYACCEL_ON_BOTH void load(int lane, const EvoformerArray<Pointer>& from, std::int64_t first_row,
                             std::int64_t rows, Real factor, Real* to) const {
    for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) {
      const std::int64_t row = first_row + i / c.dim;
      to[i] =
          row < rows
              ? static_cast<Real>(static_cast<const T*>(from.at)[offset(from, row) + i % c.dim]) *
                    factor
              : Real{0};
    }
  }

  ANYACCEL_ON_BOTH void store(int lane, const Real* from, Real factor,
                              const EvoformerArray<void*>& to, std::int64_t first_row,
                              std::int64_t rows) const {
    for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) {
      const std::int64_t row = first_row + i / c.dim;
      if (row < rows)
        static_cast<T*>(to.at)[offset(to, row) + i % c.dim] = static_cast<T>(from[i] * factor);
    }
  }

  ANYACCEL_ON_BOTH Real product(const Real* one, const Real* two) const {
    Real sum = 0;
    for (std::int64_t i = 0; i < c.dim; ++i) sum += one[i] * two[i];
    return sum;
  }

  /// Returns the score of a query and a key whose rows are in shared memory; -inf if either row is
  /// past the end.
  ANYACCEL_ON_BOTH Real score(const Real* query_row, const Real* key_row, std::int64_t query,
                              std::int64_t key) const {
    if (key >= c.keys || query >= c.queries) return no_score<Real>;
    Real bias = 0;
    if (c.bias1.at)
      bias += static_cast<Real>(static_cast<const T*>(c.bias1.at)[offset(c.bias1, 0) + key]);
    if (c.bias2.at)
      bias += static_cast<Real>(static_cast<const T*>(c.bias2.at)[offset(c.bias2, query) + key]);
    return product(query_row, key_row) + bias;
  }

  /// Replaces a row of scores with exp(score - maximum). `shift` and `inverse` hold the running
  /// maximum and sum.
  ANYACCEL_ON_BOTH void soften(int row) const {
    Real* const at = scores + row * tile;
    Real most = shift[row];
    for (int i = 0; i < tile; ++i) most = most > at[i] ? most : at[i];
    const Real from = subtrahend(most);
    again[row] = attention_exp(shift[row] - from);
    Real sum = inverse[row] * again[row];
    for (int i = 0; i < tile; ++i) {
      at[i] = attention_exp(at[i] - from);
      sum += at[i];
    }
    shift[row] = most;
    inverse[row] = sum;
  }

  /// Computes the unnormalized softmax for the queries in `a`, one tile of keys at a time. Calls
  /// then() after each tile, when `scores` holds the exponentials.
  template <typename Then>
  ANYACCEL_ON_BOTH void softmax(bool with_values, const Then& then) const {
    each([&](int lane) {
      if (lane >= tile) return;
      shift[lane] = no_score<Real>;
      inverse[lane] = 0;
    });
    for (std::int64_t key = 0; key < c.keys; key += tile) {
      each([&](int lane) {
        load(lane, c.k, key, c.keys, 1, b);
        if (with_values) load(lane, c.v, key, c.keys, 1, d);
      });
      each([&](int lane) {
        for (int i = lane; i < tile * tile; i += evoformer_lanes)
          scores[i] =
              score(a + i / tile * c.dim, b + i % tile * c.dim, first + i / tile, key + i % tile);
      });
      each([&](int lane) {
        if (lane < tile) soften(lane);
      });
      then();
    }
  }

  ANYACCEL_ON_BOTH void forward() const {
    each([&](int lane) {
      load(lane, c.q, first, c.queries, c.scale, a);
      for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) sums[i] = 0;
    });
    softmax(true, [&] {
      each([&](int lane) {
        for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) {
          const std::int64_t row = i / c.dim;
          Real sum = sums[i] * again[row];
          for (int key = 0; key < tile; ++key)
            sum += scores[row * tile + key] * d[key * c.dim + i % c.dim];
          sums[i] = sum;
        }
      });
    });
    each([&](int lane) {
      for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) {
        const Real sum = inverse[i / c.dim];
        sums[i] = sum == 0 ? 0 : sums[i] / sum;
      }
      store(lane, sums, 1, c.out, first, c.queries);
      if (lane >= tile || first + lane >= c.queries) return;
      const Real sum = inverse[lane];
      c.lse.at[offset(c.lse, first + lane)] =
          sum == 0 ? no_score<Real> : shift[lane] + real_log(sum);
    });
  }

  /// Computes delta, the negated dot product of the output and its gradient, for each query. Also
  /// computes `shift` and `inverse`, such that weight = exp(score + shift) * inverse. They are
  /// computed from `lse`, or from recomputed scores if the magnitude of `lse` is too large to
  /// represent the sum accurately.
  ANYACCEL_ON_BOTH void prepare() const {
    each([&](int lane) {
      load(lane, c.q, first, c.queries, c.scale, a);
      if (lane == 0) *changes = 0;
    });
    each([&](int lane) {
      if (lane >= tile || first + lane >= c.queries) return;
      const Real lse = c.lse.at[offset(c.lse, first + lane)];
      if (lse != no_score<Real> && (lse > 128 || lse < -128)) *changes = 1;
    });
    const bool exact = *changes == 0;
    if (!exact) softmax(false, [] {});
    each([&](int lane) {
      const std::int64_t query = first + lane;
      if (lane >= tile || query >= c.queries) return;
      const Real lse = c.lse.at[offset(c.lse, query)];
      Real sum = inverse[lane], most = shift[lane];
      if (exact) {
        sum = lse == no_score<Real> ? 0 : 1;
        most = lse;
      }
      Real shared = 0;
      const T* const grad = static_cast<const T*>(c.grad.at) + offset(c.grad, query);
      const T* const out = static_cast<const T*>(c.out.at) + offset(c.out, query);
      for (std::int64_t i = 0; i < c.dim; ++i)
        shared -= static_cast<Real>(grad[i]) * static_cast<Real>(out[i]);
      const std::int64_t all = c.all_heads() * c.queries;
      Real* const to = c.rows + index * c.queries + query;
      to[0] = sum == 0 ? 0 : -most;
      to[all] = sum == 0 ? 0 : 1 / sum;
      to[2 * all] = shared;
    });
  }

  /// Loads a tile of queries into `a`, their output gradients into `e`, and the results of
  /// prepare().
  ANYACCEL_ON_BOTH void load_queries(int lane, std::int64_t query) const {
    load(lane, c.q, query, c.queries, c.scale, a);
    load(lane, c.grad, query, c.queries, 1, e);
    if (lane >= tile || query + lane >= c.queries) return;
    const std::int64_t all = c.all_heads() * c.queries;
    const Real* const from = c.rows + index * c.queries + query + lane;
    shift[lane] = from[0];
    inverse[lane] = from[all];
    delta[lane] = from[2 * all];
  }

  ANYACCEL_ON_BOTH void load_keys(int lane, std::int64_t key) const {
    load(lane, c.k, key, c.keys, 1, b);
    load(lane, c.v, key, c.keys, 1, d);
  }

  /// Writes the attention weights to `scores` and the score gradients to `changes`.
  ANYACCEL_ON_BOTH void change(int lane, std::int64_t query, std::int64_t key) const {
    for (int i = lane; i < tile * tile; i += evoformer_lanes) {
      const int row = i / tile, column = i % tile;
      scores[i] = changes[i] = 0;
      if (query + row >= c.queries || key + column >= c.keys) continue;
      const Real at = score(a + row * c.dim, b + column * c.dim, query + row, key + column);
      const Real weight = attention_exp(at + shift[row]) * inverse[row];
      scores[i] = weight;
      changes[i] = weight * (product(e + row * c.dim, d + column * c.dim) + delta[row]);
    }
  }

  /// Computes the gradients for a tile of queries, and the gradients of the biases.
  ANYACCEL_ON_BOTH void backward_queries() const {
    each([&](int lane) {
      load_queries(lane, first);
      for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) sums[i] = 0;
    });
    for (std::int64_t key = 0; key < c.keys; key += tile) {
      each([&](int lane) { load_keys(lane, key); });
      each([&](int lane) { change(lane, first, key); });
      each([&](int lane) {
        for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) {
          Real sum = sums[i];
          for (int j = 0; j < tile; ++j)
            sum += changes[i / c.dim * tile + j] * b[j * c.dim + i % c.dim];
          sums[i] = sum;
        }
        add_to_biases(lane, key);
      });
    }
    each([&](int lane) { store(lane, sums, c.scale, c.dq, first, c.queries); });
  }

  ANYACCEL_ON_BOTH void add_to_biases(int lane, std::int64_t key) const {
    if (c.dbias1 && lane < tile && key + lane < c.keys) {
      Real sum = 0;
      for (int row = 0; row < tile; ++row) sum += changes[row * tile + lane];
      add_atomically(c.dbias1 + (batch * c.entries + entry) * c.keys + key + lane, sum);
    }
    if (!c.dbias2) return;
    for (int i = lane; i < tile * tile; i += evoformer_lanes) {
      const std::int64_t query = first + i / tile, column = key + i % tile;
      if (query < c.queries && column < c.keys)
        add_atomically(c.dbias2 + ((batch * c.heads + head) * c.queries + query) * c.keys + column,
                       changes[i]);
    }
  }

  /// Computes the gradients for a tile of keys and values.
  ANYACCEL_ON_BOTH void backward_keys() const {
    each([&](int lane) {
      load_keys(lane, first);
      for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) sums[i] = more[i] = 0;
    });
    for (std::int64_t query = 0; query < c.queries; query += tile) {
      each([&](int lane) { load_queries(lane, query); });
      each([&](int lane) { change(lane, query, first); });
      each([&](int lane) {
        for (std::int64_t i = lane; i < tile * c.dim; i += evoformer_lanes) {
          const std::int64_t key = i / c.dim, column = i % c.dim;
          for (int row = 0; row < tile; ++row) {
            sums[i] += changes[row * tile + key] * a[row * c.dim + column];
            more[i] += scores[row * tile + key] * e[row * c.dim + column];
          }
        }
      });
    }
    each([&](int lane) {
      store(lane, sums, 1, c.dk, first, c.keys);
      store(lane, more, 1, c.dv, first, c.keys);
    });
  }
};

/// CUDA kernels. Each returns null on success and the CUDA error message on failure.
const char* cuda_evoformer_forward(const EvoformerLaunch<float>& launch, Element element,
                                   void* stream);
const char* cuda_evoformer_forward(const EvoformerLaunch<double>& launch, void* stream);
const char* cuda_evoformer_backward(const EvoformerLaunch<float>& launch, Element element,
                                    void* stream);
const char* cuda_evoformer_backward(const EvoformerLaunch<double>& launch, void* stream);

}  // namespace anyaccel::ops
