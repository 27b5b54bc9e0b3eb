// Mixture-of-experts layers for CUDA thread blocks. The code is also compiled for the host, where
// the tests run it.
//
// Each (row, expert) pair gets its own thread blocks, because the selection of experts is known
// only on the device, and launches do not synchronize with the host. If several rows use the same
// expert, its weights are in the L2 cache after the first read.
#pragma once

#include "kernels/decoder/cuda/products.h"

namespace anyaccel::ops {

/// Selects a row's experts and sorts them by index. There are so few experts that one thread
/// suffices.
ANYACCEL_ON_BOTH void choose_row(const ChooseExperts& c, std::int64_t row) {
  Chosen* const to = c.chosen + row * c.count;
  choose_experts(c.logits + row * c.experts, c.experts, c.count, c.normalize,
                 static_cast<std::int32_t>(row), to);
  for (std::int64_t i = 1; i < c.count; ++i) {
    const Chosen one = to[i];
    std::int64_t at = i;
    for (; at > 0 && to[at - 1].expert > one.expert; --at) to[at] = to[at - 1];
    to[at] = one;
  }
}

constexpr int expert_outputs = block_outputs(1);

/// Computes the outputs of one tile for a (row, expert) pair.
template <typename Weights, bool aligned, typename Each>
ANYACCEL_ON_BOTH void expert_block(const ExpertProducts& c, std::int64_t pair, std::int64_t tile,
                                   const Each& each, float* shared) {
  const std::int64_t first_output = c.chosen[pair].expert * c.outputs;
  const void* const weight =
      static_cast<const char*>(c.weight) + first_output * Weights::row_bytes(c.inputs);
  product_block<Weights, 1, aligned>(
      {weight, nullptr, nullptr, static_cast<int>(c.inputs), 0, c.outputs, tile * expert_outputs,
       c.x + pair / c.per_row * c.inputs, 1},
      each, shared, [&](std::int64_t /*row*/, std::int64_t output, float sum) {
        c.to[pair * c.outputs + output] = sum;
      });
}

inline bool expert_aligned(const ExpertProducts& c, int align, std::int64_t row_bytes) {
  return is_aligned16(c.x) && is_aligned16(c.weight) && c.inputs % chunk_inputs == 0 &&
         row_bytes % align == 0;
}

/// Computes `lanes` columns of a row: the weighted sum of the row's expert results.
template <typename Each>
ANYACCEL_ON_BOTH void mix_block(const MixExperts& c, std::int64_t row, std::int64_t piece,
                                int lanes, const Each& each) {
  each([&](int lane) {
    const std::int64_t column = piece * lanes + lane;
    if (column >= c.columns) return;
    float sum = 0;
    for (std::int64_t pair = row * c.count; pair < (row + 1) * c.count; ++pair)
      sum = fmaf(c.chosen[pair].share, c.from[pair * c.columns + column], sum);
    c.to[row * c.columns + column] = sum;
  });
}

}  // namespace anyaccel::ops
