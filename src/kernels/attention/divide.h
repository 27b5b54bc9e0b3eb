// How the backward pass is divided among threads. Nothing of torch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/sparse.h"

namespace anyaccel::ops {

/// Slices (a head, or the heads that share a part of rpe's gradient) are done side by side. Where
/// they are few, each is cut into groups x groups squares of blocks, done in as many steps: in step
/// s row group r meets column group r + s, so that in no step two squares add to the same rows of
/// dq, dk or dv. That needs no memory of its own, and who is first changes no sum.
struct Division {
  std::int64_t slices, groups, rows;

  Division(std::int64_t slice_count, std::int64_t block_rows, std::int64_t threads)
      : slices(std::max<std::int64_t>(1, slice_count)), groups(1), rows(block_rows) {
    // Up to 4 threads the division, and with it each bit of the result, does not depend on their
    // number.
    const std::int64_t wanted = std::max<std::int64_t>(8, 2 * threads);
    groups = std::clamp<std::int64_t>((wanted + slices - 1) / slices, 1,
                                      std::max<std::int64_t>(1, rows));
  }

  /// Of each step.
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
