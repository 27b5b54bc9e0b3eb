// Attention of a block of queries with panels: the products that prefill and encoder passes share.
#pragma once

#include <cstdint>

#include "kernels/decoder/panels.h"

namespace anyaccel::ops {

/// Wide rows, `row` bytes apart.
struct WideRows {
  const void* data;
  std::int64_t count, row;
};

/// Memory of one thread: `panel` has panel_bytes() and `widened` has panel_scratch_bytes() of the
/// longest input.
struct PanelAttention {
  Isa isa;
  Wide wide;
  char *panel, *widened;

  /// scores[query * scores_row + position] = dot product of query and key, for `keys`
  /// [positions][dim]. Writes whole panels.
  void score(const Matrix& keys, const WideRows& queries, float* scores,
             std::int64_t scores_row) const {
    for (std::int64_t p = 0; p < keys.outputs; p += panel_outputs) {
      make_panel(isa, wide, keys, p, widened, panel);
      multiply_panel(isa, wide, panel, keys.inputs, queries.data, queries.row, queries.count,
                     scores + p, scores_row);
    }
  }

  /// to[query * to_row + column] = the query's shares times values[positions][dim]. Writes whole
  /// panels.
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
