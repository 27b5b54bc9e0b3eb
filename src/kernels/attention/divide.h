// Splits the backward pass of block-sparse attention into parallel tasks. Independent of torch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/sparse.h"

namespace anyaccel::ops {

/// Slices are processed in parallel. A slice is a head, or a set of heads that share a part of the
/// position embedding gradient (drpe). If there are few slices, each is split into a `groups` x
/// `groups` grid of block squares, which are processed in `groups` steps. In step s, row group r is
/// paired with column group r + s, so no two squares of a step add to the same rows of dq, dk or
/// dv. This does not need extra memory, and results do not depend on scheduling.
struct Division {
  std::int64_t slices, groups, rows;

  Division(std::int64_t slice_count, std::int64_t block_rows, std::int64_t threads)
      : slices(std::max<std::int64_t>(1, slice_count)), groups(1), rows(block_rows) {
    // Runs with up to 4 threads use the same division, so their results are bitwise identical.
    const std::int64_t wanted = std::max<std::int64_t>(8, 2 * threads);
    groups = std::clamp<std::int64_t>((wanted + slices - 1) / slices, 1,
                                      std::max<std::int64_t>(1, rows));
  }

  /// Number of tasks per step.
  std::int64_t tasks() const { return slices * groups; }
  std::int64_t slice(std::int64_t task) const { return task / groups; }
  BlockSquare square(std::int64_t step, std::int64_t task) const {
    const std::int64_t row = task % groups, column = (row + step) % groups;
    return {begin(row), begin(row + 1), begin(column), begin(column + 1)};
  }

 private:
  std::int64_t begin(std::int64_t group) const { return rows * group / groups; }
};

}  // namespace anyaccel::ops
