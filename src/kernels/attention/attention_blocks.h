// Dense and block-sparse attention for CUDA thread blocks, forward and backward. The code is also
// compiled for the host, where the tests run it. It uses plain pointers and is independent of torch
// and CUDA.
//
// `each(function)` runs one phase of a thread block: it calls function(lane) for all
// attention_lanes threads and then synchronizes them. A thread block handles a tile of `own`
// queries (or keys). It loops over the keys that its queries attend to (or the queries that attend
// to its keys), `other` rows at a time. The full score matrix is never stored: shared memory holds
// the scores of one pair of tiles at a time. Each sum is computed by a single thread block, so
// results are bitwise reproducible.
#pragma once

#include "kernels/attention/attention_tiles.h"

namespace anyaccel::ops {

/// A thread block that processes one task.
template <typename T, typename Real, typename Each>
struct AttentionBlock : AttentionTiles<T, Real, Each> {
  using Tiles = AttentionTiles<T, Real, Each>;
  using Tiles::at_head, Tiles::change, Tiles::clear_sums, Tiles::each_other, Tiles::is_there,
      Tiles::kept, Tiles::load, Tiles::load_queries, Tiles::multiply, Tiles::offset, Tiles::own_row,
      Tiles::other_row, Tiles::place_of, Tiles::score, Tiles::store;
  using Tiles::batch, Tiles::c, Tiles::each, Tiles::first, Tiles::head, Tiles::index, Tiles::lanes,
      Tiles::m, Tiles::plan;
  using typename Tiles::Change;
  static constexpr int lanes_log = 7;
  static_assert(1 << lanes_log == attention_lanes);

  using Tiles::Tiles;

  // Binary logarithm of parts(), the number of threads that compute the softmax of one query.
  ANYACCEL_ON_BOTH int parts_log() const { return lanes_log - plan.own_log; }
  ANYACCEL_ON_BOTH int parts() const { return lanes >> plan.own_log; }

  /// Returns the maximum of a query's scores so far, including the current tile.
  ANYACCEL_ON_BOTH Real greatest(int query) const {
    Real most = m.shift[query];
    for (int part = 0; part < parts(); ++part) {
      const Real other = m.partial[query * parts() + part];
      most = most > other ? most : other;
    }
    return most;
  }

  /// Returns the rescale factor for the running sums, and sets `from` to the value to subtract from
  /// the scores.
  ANYACCEL_ON_BOTH Real again(int query, Real most, Real* from) const {
    *from = subtrahend(most);
    return attention_exp(m.shift[query] - *from);
  }

  ANYACCEL_ON_BOTH void forward(std::int64_t task) {
    at_head(task / plan.tiles);
    first = task % plan.tiles * plan.own;
    const auto own = [&](int i) { return own_row(i); };
    each([&](int lane) {
      load(lane, c.q, plan.own, own, m.q);
      load_queries(lane, plan.own, own, false);
      clear_sums(lane);
      if (lane >= plan.own) return;
      m.shift[lane] = no_score<Real>;
      m.inverse[lane] = 0;
    });
    each_other(true, [&](std::int64_t begin) { forward_tile(begin); });
    each([&](int lane) {
      store(
          lane, m.sums, [&](int row) { return m.inverse[row] == 0 ? 0 : 1 / m.inverse[row]; },
          c.out);
      if (!c.stats || lane >= plan.own || first + lane >= c.length) return;
      // Store the maximum and the sum separately. If the logarithm of the sum were added to a
      // maximum of -1e9, it would be lost to rounding.
      const Real sum = m.inverse[lane];
      Real* const to = c.stats + 2 * (index * c.length + first + lane);
      to[0] = sum == 0 ? 0 : m.shift[lane];
      to[1] = sum == 0 ? 0 : 1 / sum;
    });
  }

  ANYACCEL_ON_BOTH void forward_tile(std::int64_t begin) const {
    const auto other = [&](int i) { return other_row(begin, i); };
    each([&](int lane) {
      load(lane, c.k, plan.other, other, m.k);
      load(lane, c.v, plan.other, other, m.v);
      if (lane < plan.other) m.rows[lane] = static_cast<std::int32_t>(other(lane));
    });
    each([&](int lane) { multiply(lane, plan.own, plan.other, false); });
    each([&](int lane) {
      for (int i = lane; i < plan.own * plan.other; i += lanes) {
        const auto [query, key] = place_of(i, plan.other_log);
        Real* const at = m.scores + query * m.score_row + key;
        *at = score(*at, own_row(query), m.rows[key]);
      }
    });
    each([&](int lane) {
      const int query = lane >> parts_log();
      Real most = no_score<Real>;
      for (int i = (lane & (parts() - 1)); i < plan.other; i += parts()) {
        const Real at = m.scores[query * m.score_row + i];
        most = most > at ? most : at;
      }
      m.partial[lane] = most;
    });
    each([&](int lane) {
      const int query = lane >> parts_log();
      Real from, sum = 0;
      const Real factor = again(query, greatest(query), &from);
      for (int i = (lane & (parts() - 1)); i < plan.other; i += parts()) {
        const Real weight = attention_exp(m.scores[query * m.score_row + i] - from);
        sum += weight;
        m.weights[query * m.weight_row + i] =
            static_cast<T>(c.dropout.threshold ? weight * kept(query, m.rows[i]) : weight);
      }
      m.partial_sum[lane] = sum;
      if (factor != 1)
        for (int i = (lane & (parts() - 1)); i < plan.padded; i += parts())
          m.sums[query * m.sum_row + i] *= factor;
    });
    each([&](int lane) {
      if (lane < plan.own) {
        Real from;
        const Real most = greatest(lane), factor = again(lane, most, &from);
        Real sum = m.inverse[lane] * factor;
        for (int part = 0; part < parts(); ++part) sum += m.partial_sum[lane * parts() + part];
        m.shift[lane] = most;
        m.inverse[lane] = sum;
      }
      multiply_tiles<Lie::nn>(
          lane, lanes,
          TileProduct<T, Real>{plan.own, plan.padded, plan.other, m.weights, m.weight_row, m.v,
                               m.row, m.sums, m.sum_row, true});
    });
  }

  /// Computes delta, the negated dot product of the output and its gradient, for prepared_rows
  /// queries.
  ANYACCEL_ON_BOTH void prepare(std::int64_t task) {
    constexpr int share = lanes / prepared_rows;
    at_head(task / plan.tiles);
    first = task % plan.tiles * prepared_rows;
    each([&](int lane) {
      const std::int64_t row = first + lane / share;
      Real sum = 0;
      if (row < c.length) {
        const T* const grad = static_cast<const T*>(c.grad.at) + offset(c.grad, row);
        const T* const out = static_cast<const T*>(c.out.at) + offset(c.out, row);
        for (int i = lane % share; i < c.dim; i += share)
          sum -= static_cast<Real>(grad[i]) * static_cast<Real>(out[i]);
      }
      m.partial[lane] = sum;
    });
    each([&](int lane) {
      if (lane >= prepared_rows || first + lane >= c.length) return;
      Real sum = 0;
      for (int part = 0; part < share; ++part) sum += m.partial[lane * share + part];
      c.delta[index * c.length + first + lane] = sum;
    });
  }

  /// Computes the gradients for a tile of queries.
  ANYACCEL_ON_BOTH void backward_queries(std::int64_t task) {
    at_head(task / plan.tiles);
    first = task % plan.tiles * plan.own;
    const auto own = [&](int i) { return own_row(i); };
    each([&](int lane) {
      load(lane, c.q, plan.own, own, m.q);
      load(lane, c.grad, plan.own, own, m.grad);
      load_queries(lane, plan.own, own, true);
      clear_sums(lane);
    });
    each_other(true, [&](std::int64_t begin) {
      const auto other = [&](int i) { return other_row(begin, i); };
      each([&](int lane) {
        load(lane, c.k, plan.other, other, m.k);
        load(lane, c.v, plan.other, other, m.v);
        if (lane < plan.other) m.rows[lane] = static_cast<std::int32_t>(other(lane));
      });
      each([&](int lane) { multiply(lane, plan.own, plan.other, true); });
      each([&](int lane) {
        for (int i = lane; i < plan.own * plan.other; i += lanes) {
          const auto [query, key] = place_of(i, plan.other_log);
          m.weights[query * m.weight_row + key] = static_cast<T>(
              change(query, query * m.score_row + key, own_row(query), m.rows[key]).change);
        }
      });
      each([&](int lane) {
        multiply_tiles<Lie::nn>(
            lane, lanes,
            TileProduct<T, Real>{plan.own, plan.padded, plan.other, m.weights, m.weight_row, m.k,
                                 m.row, m.sums, m.sum_row, true});
      });
    });
    each([&](int lane) {
      store(
          lane, m.sums, [&](int) { return c.scale; }, c.dq);
    });
  }

  /// Computes the gradients for a tile of keys and values.
  ANYACCEL_ON_BOTH void backward_keys(std::int64_t task) {
    at_head(task / plan.tiles);
    first = task % plan.tiles * plan.own;
    const auto own = [&](int i) { return own_row(i); };
    each([&](int lane) {
      load(lane, c.k, plan.own, own, m.k);
      load(lane, c.v, plan.own, own, m.v);
      clear_sums(lane);
    });
    each_other(false, [&](std::int64_t begin) {
      const auto other = [&](int i) { return other_row(begin, i); };
      each([&](int lane) {
        load(lane, c.q, plan.other, other, m.q);
        load(lane, c.grad, plan.other, other, m.grad);
        load_queries(lane, plan.other, other, true);
        if (lane < plan.other) m.rows[lane] = static_cast<std::int32_t>(other(lane));
      });
      each([&](int lane) { multiply(lane, plan.other, plan.own, true); });
      each([&](int lane) {
        for (int i = lane; i < plan.own * plan.other; i += lanes) {
          const auto [query, key] = place_of(i, plan.own_log);
          const Change found =
              change(query, query * m.score_row + key, m.rows[query], own_row(key));
          m.weights[query * m.weight_row + key] = static_cast<T>(found.weight);
          m.changes[query * m.weight_row + key] = static_cast<T>(found.change);
        }
      });
      each([&](int lane) {
        multiply_tiles<Lie::tn>(
            lane, lanes,
            TileProduct<T, Real>{plan.own, plan.padded, plan.other, m.changes, m.weight_row, m.q,
                                 m.row, m.sums, m.sum_row, true});
        multiply_tiles<Lie::tn>(
            lane, lanes,
            TileProduct<T, Real>{plan.own, plan.padded, plan.other, m.weights, m.weight_row, m.grad,
                                 m.row, m.more, m.sum_row, true});
      });
    });
    each([&](int lane) {
      store(
          lane, m.sums, [&](int) { return c.scale; }, c.dk);
      store(
          lane, m.more, [](int) { return Real{1}; }, c.dv);
    });
  }

  /// Computes one tile of the position embedding gradient, summed over the batch entries and heads
  /// that share the embeddings.
  ANYACCEL_ON_BOTH void backward_positions(std::int64_t task) {
    const std::int64_t slice = task / (plan.tiles * plan.tiles),
                       tile = task % (plan.tiles * plan.tiles);
    const std::int64_t query = tile / plan.tiles * plan.own, key = tile % plan.tiles * plan.own;
    const auto query_at = [&](int i) { return query + i < c.length ? query + i : -1; };
    const auto key_at = [&](int i) { return key + i < c.length ? key + i : -1; };
    each([&](int lane) {
      for (int i = lane; i < plan.own * m.score_row; i += lanes) m.sums[i] = 0;
    });
    for (std::int64_t of_all = 0; of_all < c.batch * c.heads; ++of_all) {
      at_head(of_all);
      if ((c.drpe_batches > 1 ? batch : 0) * c.drpe_heads + (c.drpe_heads > 1 ? head : 0) != slice)
        continue;
      if (c.layout && !is_there(query / c.block, key / c.block)) continue;
      each([&](int lane) {
        load(lane, c.q, plan.own, query_at, m.q);
        load(lane, c.grad, plan.own, query_at, m.grad);
        load_queries(lane, plan.own, query_at, true);
        load(lane, c.k, plan.own, key_at, m.k);
        load(lane, c.v, plan.own, key_at, m.v);
      });
      each([&](int lane) { multiply(lane, plan.own, plan.own, true); });
      each([&](int lane) {
        for (int i = lane; i < plan.own * plan.own; i += lanes) {
          const auto [row, column] = place_of(i, plan.own_log);
          const int at = row * m.score_row + column;
          m.sums[at] += change(row, at, query_at(row), key_at(column)).change;
        }
      });
    }
    each([&](int lane) {
      for (int i = lane; i < plan.own * plan.own; i += lanes) {
        const auto [row, column] = place_of(i, plan.own_log);
        if (query + row < c.length && key + column < c.length)
          c.drpe[(slice * c.length + query + row) * c.length + key + column] =
              m.sums[row * m.score_row + column];
      }
    });
  }
};

/// Runs one task of a step on the calling thread block.
template <typename T, typename Real, AttentionStep step, typename Each>
ANYACCEL_ON_BOTH void attention_task(const AttentionLaunch<Real>& launch, const AttentionPlan& plan,
                                     const Each& each, char* memory, std::int64_t task) {
  const AttentionMemory<T, Real> parts(step, plan, memory);
  AttentionBlock<T, Real, Each> block(launch, plan, each, parts);
  if constexpr (step == AttentionStep::forward)
    block.forward(task);
  else if constexpr (step == AttentionStep::prepare)
    block.prepare(task);
  else if constexpr (step == AttentionStep::queries)
    block.backward_queries(task);
  else if constexpr (step == AttentionStep::keys)
    block.backward_keys(task);
  else
    block.backward_positions(task);
}

}  // namespace anyaccel::ops
