// Divides panel-based matrix products among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/decoder/panels.h"

namespace anyaccel::ops {

/// A panel and the range of rows that a task multiplies by it.
struct PanelShare {
  std::int64_t panel, begin, end;
};

/// Each thread gets the same number of whole panels. All threads work on each of the remaining
/// panels: every thread builds the panel and multiplies some of the rows by it.
struct PanelShares {
  std::int64_t threads, rows;

  /// Number of tasks for `panels` panels.
  std::int64_t count(std::int64_t panels) const {
    const std::int64_t even = panels / threads * threads;
    return even + (panels - even) * threads;
  }
  PanelShare of(std::int64_t task, std::int64_t panels) const {
    const std::int64_t even = panels / threads * threads;
    if (task < even) return {task, 0, rows};
    const std::int64_t part = (task - even) % threads, tile = panel_tile_rows;
    const std::int64_t step = ((rows + threads - 1) / threads + tile - 1) / tile * tile;
    return {even + (task - even) / threads, std::min(part * step, rows),
            std::min((part + 1) * step, rows)};
  }
};

}  // namespace anyaccel::ops
