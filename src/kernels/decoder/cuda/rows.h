// The steps of a decoder layer between matrix products, for CUDA thread blocks: norms, rotary
// embeddings and gates. The code is also compiled for the host, where the tests run it.
//
// A block processes one row or one head of a row, so the order in which a row's sums are computed
// does not depend on other rows.
#pragma once

#include <cmath>

#include "kernels/cuda/lanes.h"
#include "kernels/decoder/cuda/elements.h"
#include "kernels/decoder/cuda/launches.h"

namespace anyaccel::ops {

constexpr int norm_lanes = 512;  // enough threads to hide memory latency even with a single row
constexpr int head_lanes = 128;
constexpr int gate_lanes = 256;

/// A normalized value is (value - mean) * factor, before weight and bias.
struct NormFactor {
  float mean, factor;
};

/// Computes the mean and the factor for a row whose values are load(i). `shared` has room for one
/// float per warp.
template <int lanes, typename Each, typename Load>
ANYACCEL_ON_BOTH NormFactor norm_factor(const Each& each, const Norm& norm, std::int64_t columns,
                                        const Load& load, float* shared) {
  PerLane<float, lanes> sum;
  float mean = 0;
  if (norm.kind == NormKind::layer) {
    each([&](int lane) {
      sum[lane] = 0;
      for (std::int64_t i = lane; i < columns; i += lanes) sum[lane] += load(i);
    });
    join_block(each, sum, shared, Sum());
    mean = sum[0] / static_cast<float>(columns);
  }
  each([&](int lane) {
    sum[lane] = 0;
    for (std::int64_t i = lane; i < columns; i += lanes) {
      const float inside = load(i) - mean;
      sum[lane] = fmaf(inside, inside, sum[lane]);
    }
  });
  join_block(each, sum, shared, Sum());
  return {mean, 1.0F / sqrtf(sum[0] / static_cast<float>(columns) + norm.eps)};
}

template <typename Types>
ANYACCEL_ON_BOTH float normed_value(const Norm& norm, const NormFactor& by, float value,
                                    std::int64_t i) {
  value = (value - by.mean) * by.factor;
  if (norm.weight.data)
    value *= value_at<Types>(norm.weight, i) + (norm.kind == NormKind::rms_plus_one ? 1.0F : 0.0F);
  return value + bias_at<Types>(norm.bias, i);
}

/// Processes one row of a launch. `shared` has room for norm_lanes / warp_lanes floats.
template <typename Types, typename Each>
ANYACCEL_ON_BOTH void norm_row_block(const NormRows& c, std::int64_t row, const Each& each,
                                     float* shared) {
  float* const x = c.x + c.from[row] * c.columns;
  if (c.change) {
    const float* const change = c.change + c.from[row] * c.columns;
    NormFactor by{0, 1};
    if (c.norms_change)
      by = norm_factor<norm_lanes>(
          each, c.after, c.columns, [&](std::int64_t i) { return change[i]; }, shared);
    each([&](int lane) {
      for (std::int64_t i = lane; i < c.columns; i += norm_lanes)
        x[i] += c.norms_change ? normed_value<Types>(c.after, by, change[i], i) : change[i];
    });
  }
  if (!c.to) return;
  NormFactor by{0, 1};
  if (c.normed)
    by = norm_factor<norm_lanes>(
        each, c.norm, c.columns, [&](std::int64_t i) { return x[i]; }, shared);
  each([&](int lane) {
    float* const to = c.to + row * c.columns;
    for (std::int64_t i = lane; i < c.columns; i += norm_lanes)
      to[i] = c.normed ? normed_value<Types>(c.norm, by, x[i], i) : x[i];
  });
}

/// Processes head `head` of a row. Query heads come first, then key heads, then value heads.
/// `shared` has room for dim + head_lanes / warp_lanes floats.
template <typename Types, typename Each>
ANYACCEL_ON_BOTH void position_head_block(const PositionHeads& c, std::int64_t row,
                                          std::int64_t head, const Each& each, float* shared) {
  const std::int64_t all = c.heads + 2 * c.kv_heads;
  float* const at = c.qkv + (row * all + head) * c.dim;
  const bool query = head < c.heads, value = head >= c.heads + c.kv_heads;
  const RowPlace& place = c.places[row];
  float* const values = shared + head_lanes / warp_lanes;
  NormFactor by{0, 1};
  const Norm& norm = query ? c.query_norm : c.key_norm;
  const bool norms = c.head_norms && !value;
  if (norms)
    by = norm_factor<head_lanes>(
        each, norm, c.dim, [&](std::int64_t i) { return at[i]; }, shared);
  each([&](int lane) {
    for (std::int64_t i = lane; i < c.dim; i += head_lanes)
      values[i] = norms ? normed_value<Types>(norm, by, at[i], i) : at[i];
  });
  if (!value)
    each([&](int lane) {
      for (std::int64_t i = lane; i < c.half; i += head_lanes) {
        const std::int64_t first = c.interleaved ? 2 * i : i,
                           second = c.interleaved ? 2 * i + 1 : i + c.half;
        const float cos = c.cos[row * c.half + i], sin = c.sin[row * c.half + i];
        const float a = values[first], b = values[second];
        values[first] = a * cos - b * sin;
        values[second] = fmaf(a, sin, b * cos);
      }
    });
  const std::int64_t kv_head = (head - c.heads) % c.kv_heads;
  const std::int64_t cached = (kv_head * place.capacity + place.position) * c.dim;
  each([&](int lane) {
    for (std::int64_t i = lane; i < c.dim; i += head_lanes)
      if (query)
        at[i] = values[i];
      else
        set_value<Types>(value ? place.values : place.keys, cached + i, values[i]);
  });
}

ANYACCEL_ON_BOTH float gated(Gate gate, float x) {
  switch (gate) {
    case Gate::silu: return x / (1 + expf(-x));
    case Gate::gelu: return x * 0.5F * (1 + erff(x * 0.70710678F));
    case Gate::gelu_tanh:
      return 0.5F * x * (1 + tanhf(0.7978845608F * fmaf(0.044715F * x * x, x, x)));
    case Gate::relu:
    case Gate::relu2: break;
  }
  const float positive = x > 0 || x != x ? x : 0.0F;
  return gate == Gate::relu2 ? positive * positive : positive;
}

/// Processes gate_lanes columns of a row.
template <typename Types, typename Each>
ANYACCEL_ON_BOTH void gate_block(const GateRows& c, std::int64_t row, std::int64_t piece,
                                 const Each& each) {
  each([&](int lane) {
    const std::int64_t i = piece * gate_lanes + lane;
    if (i >= c.columns) return;
    const float* const from = c.from + row * c.from_row;
    const float value = gated(c.gate, from[i] + bias_at<Types>(c.bias, i));
    c.to[row * c.columns + i] =
        c.gated ? value * (from[c.columns + i] + bias_at<Types>(c.up_bias, i)) : value;
  });
}

}  // namespace anyaccel::ops
