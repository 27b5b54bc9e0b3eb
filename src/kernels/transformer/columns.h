// The columns of a row that a CUDA thread processes at a time, and the dropout of a row. See
// rows_blocks.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/lanes.h"
#include "kernels/cuda/vectors.h"
#include "kernels/transformer/device_rows.h"
#include "kernels/transformer/dropout.h"

namespace anyaccel::ops {

/// The columns that a thread processes at a time, in the compute type. Columns past the last one
/// are zeros.
template <typename S>
struct Columns {
  using Real = typename RealOf<S>::type;
  static constexpr int count = Sixteen<S>::count;
  Real at[count];

  /// Loads the first `there` columns. If `wide` is set, all columns exist and `from` is 16-byte
  /// aligned.
  template <Reads reads = Reads::again>
  static ANYACCEL_ON_BOTH Columns load(const S* from, std::int64_t there, bool wide) {
    Columns out;
    if (wide) {
      const Sixteen<S> some = load_sixteen<reads>(from);
      for (int j = 0; j < count; ++j) out.at[j] = static_cast<Real>(some.at[j]);
    } else {
      for (int j = 0; j < count; ++j) out.at[j] = j < there ? static_cast<Real>(from[j]) : Real{0};
    }
    return out;
  }
  ANYACCEL_ON_BOTH void store(S* to, std::int64_t there, bool wide) const {
    if (wide) {
      Sixteen<S> some;
      for (int j = 0; j < count; ++j) some.at[j] = static_cast<S>(at[j]);
      store_sixteen(some, to);
    } else {
      for (int j = 0; j < count; ++j)
        if (j < there) to[j] = static_cast<S>(at[j]);
    }
  }
};

/// Returns true if all rows of these arrays consist of aligned 16-byte vectors. Arrays may be null.
template <typename S, typename... Pointers>
bool are_wide(std::int64_t columns, const Pointers*... arrays) {
  return columns % Sixteen<S>::count == 0 && (is_aligned16(arrays) && ...);
}

/// Dropout for one row.
struct RowDropout {
  std::uint32_t low, high, threshold;
  double scale;

  ANYACCEL_ON_BOTH RowDropout(const Dropout& dropout, std::int64_t row)
      : low(0), high(0), threshold(dropout.threshold), scale(dropout.scale) {
    if (!threshold) return;
    const std::uint64_t key = draws::row_key(dropout, row);
    low = static_cast<std::uint32_t>(key);
    high = static_cast<std::uint32_t>(key >> 32);
  }
  template <typename Real>
  ANYACCEL_ON_BOTH Real of(Real value, std::int64_t column) const {
    if (!threshold) return value;
    return draws::drawn(low, high, static_cast<std::uint32_t>(column)) >= threshold
               ? value * static_cast<Real>(scale)
               : Real{0};
  }
};

/// Calls function(column, count) for each group of columns that a thread processes. `column` is the
/// first column of the group, and `count` the number of its columns.
template <typename S, typename Function>
ANYACCEL_ON_BOTH void each_columns(int lane, std::int64_t columns, const Function& function) {
  constexpr int step = Sixteen<S>::count;
  for (std::int64_t i = static_cast<std::int64_t>(lane) * step; i < columns; i += row_lanes * step)
    function(i, columns - i < step ? static_cast<int>(columns - i) : step);
}

}  // namespace anyaccel::ops
