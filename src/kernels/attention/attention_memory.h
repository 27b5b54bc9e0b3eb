// Shared memory of an attention thread block, and the tile sizes that fit in it. Also compiled for
// the host.
#pragma once

#include "kernels/attention/attention_launch.h"
#include "kernels/cuda/tile_products.h"

namespace anyaccel::ops {

/// Shared memory of a thread block. `weights` and `changes` are operands of matrix products. For
/// 16-bit types, they have their own buffers; for float and double, they overwrite `scores` and
/// `products`.
template <typename T, typename Real>
struct AttentionMemory {
  static constexpr bool narrow = !std::is_same_v<T, Real>;
  T *q = nullptr, *grad = nullptr, *k = nullptr, *v = nullptr, *weights = nullptr,
    *changes = nullptr;
  Real *scores = nullptr, *products = nullptr, *sums = nullptr, *more = nullptr;
  Real *shift, *inverse, *delta, *partial, *partial_sum;
  std::uint64_t* keys;
  /// `there` lists the `count` blocks of the layout that interact with the own tile. `rows` holds
  /// the row indices of the other tile.
  std::int32_t *there, *rows, *count;
  std::uint32_t* flags;
  int row, sum_row, score_row, weight_row;
  std::size_t bytes = 0;

  ANYACCEL_ON_BOTH AttentionMemory(AttentionStep step, const AttentionPlan& plan, char* base) {
    const int queries = plan.queries(step), keys_of_tile = plan.keys(step);
    row = plan.padded + tile_gap<T>;
    sum_row = plan.padded + tile_gap<Real>;
    score_row = keys_of_tile + tile_gap<Real>;
    weight_row = narrow ? keys_of_tile + tile_gap<T> : score_row;
    const auto take = [&](auto*& to, int elements) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(base + bytes);
      bytes += (static_cast<std::size_t>(elements) * sizeof(*to) + 31) / 32 * 32;
    };
    const bool backward = step != AttentionStep::forward;
    take(shift, attention_rows);
    take(inverse, attention_rows);
    take(delta, attention_rows);
    take(partial, attention_lanes);
    take(partial_sum, attention_lanes);
    take(keys, attention_rows);
    take(there, attention_lanes);
    take(rows, attention_rows);
    take(flags, attention_lanes / 4);
    take(count, 1);
    if (step == AttentionStep::prepare) return;
    take(q, queries * row);
    take(k, keys_of_tile * row);
    take(v, keys_of_tile * row);
    take(scores, queries * score_row);
    if (backward) {
      take(grad, queries * row);
      take(products, queries * score_row);
    }
    take(sums, step == AttentionStep::positions ? queries * score_row : plan.own * sum_row);
    if (step == AttentionStep::positions) return;
    if (step == AttentionStep::keys) take(more, plan.own * sum_row);
    if constexpr (narrow) {
      take(weights, queries * weight_row);
      if (step == AttentionStep::keys) take(changes, queries * weight_row);
    } else {
      weights = step == AttentionStep::queries ? products : scores;
      changes = products;
    }
  }
};

/// Plans a step with the largest tiles that fit in shared memory.
template <typename T, typename Real>
AttentionPlan plan_attention(AttentionStep step, const AttentionLaunch<Real>& launch) {
  AttentionPlan best{};
  best.padded = (launch.dim + 15) / 16 * 16;
  if (best.padded == 0) best.padded = 16;
  const auto fits = [&](int rows) { return rows == 16 || rows / 2 < launch.length; };
  for (int own = attention_rows; own >= 16; own /= 2)
    for (int other = attention_rows; other >= 16; other /= 2) {
      if (!fits(own) || !fits(other) || (launch.layout && launch.block % own)) continue;
      AttentionPlan plan = best;
      plan.own = own;
      plan.other = step == AttentionStep::positions ? own : other;
      plan.bytes = AttentionMemory<T, Real>(step, plan, nullptr).bytes;
      const bool smallest = own == 16 && other == 16;
      if (plan.bytes > attention_most_bytes && !smallest) continue;
      if (plan.own * plan.other > best.own * best.other) best = plan;
    }
  while (1 << best.own_log < best.own) ++best.own_log;
  while (1 << best.other_log < best.other) ++best.other_log;
  const std::int64_t rows = step == AttentionStep::prepare ? prepared_rows : best.own;
  best.tiles = (launch.length + rows - 1) / rows;
  best.tasks = launch.batch * launch.heads * best.tiles;
  if (step == AttentionStep::positions)
    best.tasks = launch.drpe_batches * launch.drpe_heads * best.tiles * best.tiles;
  return best;
}

}  // namespace anyaccel::ops
