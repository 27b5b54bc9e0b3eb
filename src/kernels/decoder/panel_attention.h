// Panel-based matrix products for attention over a block of queries. Prefill and encoder passes
// share them.
#pragma once

#include <cstdint>

#include "kernels/decoder/panels.h"

namespace anyaccel::ops {

/// Rows in the operand type `Wide`, with a stride of `row` bytes.
struct WideRows {
  const void* data;
  std::int64_t count, row;
};

/// Attention products that one thread computes in its own buffers. For the largest number of
/// inputs, `panel` has room for panel_bytes() bytes and `widened` for panel_scratch_bytes() bytes.
struct PanelAttention {
  Isa isa;
  Wide wide;
  char *panel, *widened;

  /// Sets scores[query * scores_row + position] to the dot product of query and key, for `keys`
  /// [positions][dim]. Writes whole panels.
  void score(const Matrix& keys, const WideRows& queries, float* scores,
             std::int64_t scores_row) const {
    for (std::int64_t p = 0; p < keys.outputs; p += panel_outputs) {
      make_panel(isa, wide, keys, p, widened, panel);
      multiply_panel(isa, wide, panel, keys.inputs, queries.data, queries.row, queries.count,
                     scores + p, scores_row);
    }
  }

  /// Sets to[query * to_row + column] to the products of the attention weights in `shares` and
  /// values[positions][dim]. Writes whole panels.
  void mix(const void* values, Element type, std::int64_t positions, std::int64_t dim,
           const WideRows& shares, float* to, std::int64_t to_row) const {
    for (std::int64_t c = 0; c < dim; c += panel_outputs) {
      make_turned_panel(isa, wide, values, type, positions, dim, c, panel);
      multiply_panel(isa, wide, panel, positions, shares.data, shares.row, shares.count, to + c,
                     to_row);
    }
  }
};

}  // namespace anyaccel::ops
