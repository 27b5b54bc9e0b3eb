// Operations on attention tiles in shared memory: row indices, loads, stores and scores. Also
// compiled for the host.
//
// The "own tile" holds the rows whose results the thread block computes. It is multiplied by one
// "other tile" at a time.
#pragma once

#include "kernels/attention/attention_memory.h"
#include "kernels/attention/running_softmax.h"
#include "kernels/cuda/vectors.h"
#include "kernels/transformer/dropout.h"

namespace anyaccel::ops {

/// Code that all steps share.
template <typename T, typename Real, typename Each>
struct AttentionTiles {
  const AttentionLaunch<Real>& c;
  const AttentionPlan& plan;
  const Each& each;
  const AttentionMemory<T, Real>& m;
  std::int64_t index, batch, head;  ///< of the current task; `index` is batch * heads + head
  std::int64_t first;               ///< first row of the own tile

  static constexpr int lanes = attention_lanes;

  /// `of_all` is batch * heads + head.
  ANYACCEL_ON_BOTH void at_head(std::int64_t of_all) {
    index = of_all;
    batch = of_all / c.heads;
    head = of_all % c.heads;
  }

  ANYACCEL_ON_BOTH AttentionTiles(const AttentionLaunch<Real>& launch,
                                  const AttentionPlan& division, const Each& phase,
                                  const AttentionMemory<T, Real>& memory)
      : c(launch), plan(division), each(phase), m(memory), index(0), batch(0), head(0), first(0) {}

  template <typename Pointer>
  ANYACCEL_ON_BOTH std::int64_t offset(const HeadArray<Pointer>& array, std::int64_t row) const {
    return batch * array.batch + head * array.head + row * array.row;
  }

  // Row indices in the own tile and in the other tile. The own tile has consecutive rows. With a
  // layout, the rows of the other tile come from the blocks listed in `there`. -1 marks a missing
  // row.

  ANYACCEL_ON_BOTH std::int64_t own_row(int i) const {
    return first + i < c.length ? first + i : -1;
  }

  /// Row and column of element i in a tile. The number of columns is a power of 2.
  struct Place {
    int row, column;
  };
  ANYACCEL_ON_BOTH Place place_of(int i, int columns_log) const {
    return {i >> columns_log, i & ((1 << columns_log) - 1)};
  }

  /// Returns the index of row i of the other tile, which starts at `begin`. In dense attention,
  /// `begin` is a row index; with a layout, it is a position in the concatenated rows of the blocks
  /// in `there`.
  ANYACCEL_ON_BOTH std::int64_t other_row(std::int64_t begin, int i) const {
    std::int64_t row = begin + i;
    if (c.layout) {
      const auto place = static_cast<int>(begin) + i;
      if (place >= *m.count * c.block) return -1;
      row = static_cast<std::int64_t>(m.there[place / c.block]) * c.block + place % c.block;
    }
    return row < c.length ? row : -1;
  }

  ANYACCEL_ON_BOTH bool is_there(std::int64_t query_block, std::int64_t key_block) const {
    return c.layout[head * c.layout_head + query_block * c.blocks + key_block] != 0;
  }

  /// Calls then(begin) for each tile that interacts with the own tile. If `by_query` is set, the
  /// own rows are queries and the other rows are keys; otherwise the reverse.
  template <typename Then>
  ANYACCEL_ON_BOTH void each_other(bool by_query, const Then& then) const {
    if (!c.layout) {
      for (std::int64_t begin = 0; begin < c.length; begin += plan.other) then(begin);
      return;
    }
    const std::int64_t own = first / c.block;
    for (std::int64_t base = 0; base < c.blocks; base += lanes) {
      each([&](int lane) {
        const std::int64_t block = base + lane;
        reinterpret_cast<unsigned char*>(m.flags)[lane] =
            block < c.blocks && (by_query ? is_there(own, block) : is_there(block, own)) ? 1 : 0;
      });
      each([&](int lane) {
        const auto* const flags = reinterpret_cast<const unsigned char*>(m.flags);
        int before = 0;
        for (int i = 0; i < lane / 4; ++i)
          before += static_cast<int>((m.flags[i] * 0x01010101U) >> 24);
        for (int i = lane / 4 * 4; i < lane; ++i) before += flags[i];
        if (flags[lane]) m.there[before] = static_cast<std::int32_t>(base + lane);
        if (lane == lanes - 1) *m.count = before + flags[lane];
      });
      const int rows = *m.count * c.block;
      for (int begin = 0; begin < rows; begin += plan.other) then(static_cast<std::int64_t>(begin));
    }
  }

  /// Sets to[i] = from[row_at(i)]. Missing rows and columns past the last one are zero-filled.
  template <typename RowAt>
  ANYACCEL_ON_BOTH void load(int lane, const HeadArray<const void*>& from, int rows,
                             const RowAt& row_at, T* to) const {
    using Vector = Sixteen<T>;
    constexpr int width = Vector::count;
    const int across = plan.padded / width;
    for (int i = lane; i < rows * across; i += lanes) {
      const int column = i % across * width;
      const std::int64_t row = row_at(i / across);
      Vector vector;
      if (row >= 0 && column < c.dim) {
        const T* const at = static_cast<const T*>(from.at) + offset(from, row) + column;
        if (c.vectors)
          vector = load_sixteen(at);
        else
          for (int j = 0; j < width; ++j)
            vector.at[j] = column + j < c.dim ? at[j] : static_cast<T>(Real{0});
      } else {
        for (int j = 0; j < width; ++j) vector.at[j] = static_cast<T>(Real{0});
      }
      store_sixteen(vector, to + i / across * m.row + column);
    }
  }

  /// Multiplies the sums of the own tile by factor(row) and writes them to the tensor `to`.
  template <typename FactorOf>
  ANYACCEL_ON_BOTH void store(int lane, const Real* from, const FactorOf& factor,
                              const HeadArray<void*>& to) const {
    for (int i = lane; i < plan.own * c.dim; i += lanes) {
      const int row = i / c.dim, column = i % c.dim;
      if (first + row < c.length)
        static_cast<T*>(to.at)[offset(to, first + row) + column] =
            static_cast<T>(from[row * m.sum_row + column] * factor(row));
    }
  }

  ANYACCEL_ON_BOTH void clear_sums(int lane) const {
    for (int i = lane; i < plan.own * m.sum_row; i += lanes) {
      m.sums[i] = 0;
      if (m.more) m.more[i] = 0;
    }
  }

  /// Loads the dropout key of each query in a tile and, for the backward pass, the query's shift,
  /// inverse and delta.
  template <typename RowAt>
  ANYACCEL_ON_BOTH void load_queries(int lane, int rows, const RowAt& row_at, bool backward) const {
    if (lane >= rows) return;
    const std::int64_t row = row_at(lane), place = index * c.length + row;
    if (backward) {
      m.shift[lane] = row < 0 ? 0 : -c.stats[2 * place];
      m.inverse[lane] = row < 0 ? 0 : c.stats[2 * place + 1];
      m.delta[lane] = row < 0 ? 0 : c.delta[place];
    }
    if (c.dropout.threshold && row >= 0) m.keys[lane] = draws::row_key(c.dropout, place);
  }

  /// Returns the dropout factor for the attention weight of a query-key pair.
  ANYACCEL_ON_BOTH Real kept(int query, std::int64_t key) const {
    if (!c.dropout.threshold) return 1;
    const std::uint64_t of_row = m.keys[query];
    const std::uint32_t number =
        draws::drawn(static_cast<std::uint32_t>(of_row), static_cast<std::uint32_t>(of_row >> 32),
                     static_cast<std::uint32_t>(key));
    return number >= c.dropout.threshold ? static_cast<Real>(c.dropout.scale) : 0;
  }

  /// Returns the score of a query and a key, given their dot product; -inf if either row is
  /// missing.
  ANYACCEL_ON_BOTH Real score(Real product, std::int64_t query, std::int64_t key) const {
    if (query < 0 || key < 0) return no_score<Real>;
    Real out = product * c.scale;
    for (const AttentionBias& bias : c.bias) {
      if (bias.kind == BiasKind::none) continue;
      const std::int64_t at =
          batch * bias.batch + head * bias.head + query * bias.row + key * bias.column;
      if (bias.kind == BiasKind::seen)
        out = static_cast<const unsigned char*>(bias.at)[at] ? out : out + no_score<Real>;
      else if (bias.kind == BiasKind::real)
        out += static_cast<const Real*>(bias.at)[at];
      else
        out += static_cast<Real>(static_cast<const T*>(bias.at)[at]);
    }
    return out;
  }

  /// Computes scores[query][key], the dot products of a tile of queries and a tile of keys. If
  /// `gradients` is set, also computes the dot products of output gradients and values.
  ANYACCEL_ON_BOTH void multiply(int lane, int queries, int keys, bool gradients) const {
    multiply_tiles<Lie::nt>(lane, lanes,
                            TileProduct<T, Real>{queries, keys, plan.padded, m.q, m.row, m.k, m.row,
                                                 m.scores, m.score_row, false});
    if (gradients)
      multiply_tiles<Lie::nt>(lane, lanes,
                              TileProduct<T, Real>{queries, keys, plan.padded, m.grad, m.row, m.v,
                                                   m.row, m.products, m.score_row, false});
  }

  /// Attention weight of a query-key pair, and the gradient of its score.
  struct Change {
    Real weight, change;
  };
  ANYACCEL_ON_BOTH Change change(int query, int at, std::int64_t query_row,
                                 std::int64_t key_row) const {
    const Real weight =
        attention_exp(score(m.scores[at], query_row, key_row) + m.shift[query]) * m.inverse[query];
    const Real factor = key_row < 0 ? 0 : kept(query, key_row);
    return {weight * factor, weight * (m.products[at] * factor + m.delta[query])};
  }
};

}  // namespace anyaccel::ops
