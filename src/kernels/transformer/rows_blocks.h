// The row-wise operations of a transformer layer for CUDA thread blocks. The code is also compiled
// for the host, where the tests run it. It uses plain pointers and is independent of torch and
// CUDA.
//
// A thread processes 16 bytes of columns at a time. These are the same columns in all phases, so
// each thread only reads intermediate values that it has written itself. S is the type in memory;
// 16-bit types are the device's types.
#pragma once

#include <cmath>

#include "kernels/cuda/lanes.h"
#include "kernels/cuda/vectors.h"
#include "kernels/transformer/columns.h"
#include "kernels/transformer/device_rows.h"

namespace anyaccel::ops {

ANYACCEL_ON_BOTH float real_root(float x) { return sqrtf(x); }
ANYACCEL_ON_BOTH double real_root(double x) { return sqrt(x); }
ANYACCEL_ON_BOTH float real_erfc(float x) { return erfcf(x); }
ANYACCEL_ON_BOTH double real_erfc(double x) { return erfc(x); }
ANYACCEL_ON_BOTH float row_exp(float x) { return expf(x); }
ANYACCEL_ON_BOTH double row_exp(double x) { return exp(x); }

/// Size of a block's shared memory, in elements of the compute type. It holds the sums of the
/// warps, and either one row or three column sums.
constexpr std::int64_t row_joins = 2 * row_lanes / warp_lanes;
inline std::int64_t add_norm_shared(std::int64_t columns, int step) {
  return row_joins + (columns + step - 1) / step * step;
}
/// If column sums do not fit in the shared memory that every device has, they are accumulated
/// directly in `parts`.
inline bool sums_are_shared(std::int64_t columns, std::size_t size) {
  return 3 * columns * size <= 46 * 1024;
}
inline std::int64_t norm_grad_shared(std::int64_t columns, std::size_t size) {
  return row_joins + (sums_are_shared(columns, size) ? 3 * columns : 0);
}

/// Processes one row of AddNorm.
template <typename S, typename Each>
ANYACCEL_ON_BOTH void add_norm_block(const AddNorm<S>& pass, bool wide, std::int64_t row,
                                     const Each& each, typename RealOf<S>::type* shared) {
  using Real = typename RealOf<S>::type;
  using Some = Columns<S>;
  const std::int64_t columns = pass.columns, at = row * columns;
  Real* const row_of = shared + row_joins;
  PerLane<Real, row_lanes> sum, squares;
  each([&](int lane) {
    const RowDropout dropout(pass.dropout, row);
    Real all = 0;
    each_columns<S>(lane, columns, [&](std::int64_t i, int there) {
      Some r = Some::load(pass.residual + at + i, there, wide);
      if (pass.product) {
        // The product may be stored in the output's memory, which this kernel writes.
        const Some product =
                       Some::template load<Reads::written>(pass.product + at + i, there, wide),
                   bias = Some::load(pass.bias + i, there, wide);
        for (int j = 0; j < Some::count; ++j)
          r.at[j] = j < there ? r.at[j] + dropout.of(product.at[j] + bias.at[j], i + j) : Real{0};
      }
      for (int j = 0; j < Some::count; ++j) {
        row_of[i + j] = r.at[j];
        all += r.at[j];
      }
      if (pass.sum) r.store(pass.sum + at + i, there, wide);
    });
    sum[lane] = all;
  });
  if (!pass.out) return;
  join_block(each, sum, shared, Sum());
  each([&](int lane) {
    const Real mean = sum[lane] / static_cast<Real>(columns);
    Real all = 0;
    each_columns<S>(lane, columns, [&](std::int64_t i, int there) {
      for (int j = 0; j < Some::count; ++j)
        if (j < there) all += (row_of[i + j] - mean) * (row_of[i + j] - mean);
    });
    squares[lane] = all;
  });
  join_block(each, squares, shared + row_joins / 2, Sum());
  each([&](int lane) {
    const Real mean = sum[lane] / static_cast<Real>(columns);
    const Real rstd = 1 / real_root(squares[lane] / static_cast<Real>(columns) + pass.eps);
    each_columns<S>(lane, columns, [&](std::int64_t i, int there) {
      const Some weight = Some::load(pass.weight + i, there, wide),
                 shift = Some::load(pass.shift + i, there, wide);
      Some out;
      for (int j = 0; j < Some::count; ++j)
        out.at[j] = (row_of[i + j] - mean) * rstd * weight.at[j] + shift.at[j];
      out.store(pass.out + at + i, there, wide);
    });
    if (pass.stats && lane == 0) {
      pass.stats[2 * row] = mean;
      pass.stats[2 * row + 1] = rstd;
    }
  });
}

/// Processes the rows of one part of NormGrad.
template <typename S, typename Each>
struct NormGradBlock {
  using Real = typename RealOf<S>::type;
  using Some = Columns<S>;
  const NormGrad<S>& pass;
  bool wide;
  const Each& each;
  Real *shared, *sums;  ///< sums: [3][columns]

  /// Returns columns of the normalized row, computed from r or recovered from the norm's result.
  ANYACCEL_ON_BOTH Some normal(std::int64_t row, std::int64_t i, int there,
                               const Some& weight) const {
    const std::int64_t at = row * pass.columns + i;
    Some out = Some::load((pass.sum ? pass.sum : pass.out) + at, there, wide);
    if (pass.sum) {
      const Real mean = pass.stats[2 * row], rstd = pass.stats[2 * row + 1];
      for (Real& value : out.at) value = (value - mean) * rstd;
    } else {
      const Some shift = Some::load(pass.shift + i, there, wide);
      for (int j = 0; j < Some::count; ++j)
        out.at[j] = j < there ? (out.at[j] - shift.at[j]) / weight.at[j] : Real{0};
    }
    return out;
  }

  ANYACCEL_ON_BOTH void one_row(std::int64_t row) const {
    const std::int64_t columns = pass.columns, at = row * columns;
    PerLane<Real, row_lanes> straight, along;
    if (pass.weight) {
      each([&](int lane) {
        Real one = 0, two = 0;
        each_columns<S>(lane, columns, [&](std::int64_t i, int there) {
          const Some grad = Some::load(pass.grad + at + i, there, wide),
                     weight = Some::load(pass.weight + i, there, wide);
          const Some normed = normal(row, i, there, weight);
          // Gradients past the last column are zeros.
          for (int j = 0; j < Some::count; ++j) {
            one += grad.at[j] * weight.at[j];
            two += grad.at[j] * weight.at[j] * normed.at[j];
            if (j >= there) continue;
            sums[i + j] += grad.at[j] * normed.at[j];
            sums[columns + i + j] += grad.at[j];
          }
        });
        straight[lane] = one;
        along[lane] = two;
      });
      join_block(each, straight, shared, Sum());
      join_block(each, along, shared + row_joins / 2, Sum());
    }
    each([&](int lane) {
      const RowDropout dropout(pass.dropout, row);
      each_columns<S>(lane, columns, [&](std::int64_t i, int there) {
        Some grad = Some::load(pass.grad + at + i, there, wide);
        if (pass.weight) {
          const Some weight = Some::load(pass.weight + i, there, wide),
                     normed = normal(row, i, there, weight);
          const Real level = straight[lane] / static_cast<Real>(columns),
                     tilt = along[lane] / static_cast<Real>(columns);
          for (int j = 0; j < Some::count; ++j)
            grad.at[j] =
                (grad.at[j] * weight.at[j] - level - normed.at[j] * tilt) * pass.stats[2 * row + 1];
          if (pass.plus) {
            const Some plus = Some::load(pass.plus + at + i, there, wide);
            for (int j = 0; j < Some::count; ++j) grad.at[j] += plus.at[j];
          }
        }
        if (pass.grad_sum) grad.store(pass.grad_sum + at + i, there, wide);
        for (int j = 0; j < Some::count; ++j) {
          grad.at[j] = dropout.of(grad.at[j], i + j);
          if (j < there) sums[2 * columns + i + j] += grad.at[j];
        }
        if (pass.grad_product) grad.store(pass.grad_product + at + i, there, wide);
      });
    });
  }
};

template <typename S, typename Each>
ANYACCEL_ON_BOTH void norm_grad_block(const NormGrad<S>& pass, bool wide, std::int64_t rows,
                                      std::int64_t rows_of_part, std::int64_t part, bool in_shared,
                                      const Each& each, typename RealOf<S>::type* shared,
                                      typename RealOf<S>::type* parts) {
  using Real = typename RealOf<S>::type;
  Real* const to = parts + part * 3 * pass.columns;
  Real* const sums = in_shared ? shared + row_joins : to;
  const NormGradBlock<S, Each> block{pass, wide, each, shared, sums};
  each([&](int lane) {
    for (int which = 0; which < 3; ++which)
      each_columns<S>(lane, pass.columns, [&](std::int64_t i, int there) {
        for (int j = 0; j < Columns<S>::count; ++j)
          if (j < there) sums[which * pass.columns + i + j] = 0;
      });
  });
  const std::int64_t end = (part + 1) * rows_of_part < rows ? (part + 1) * rows_of_part : rows;
  for (std::int64_t row = part * rows_of_part; row < end; ++row) block.one_row(row);
  if (in_shared)
    each([&](int lane) {
      for (std::int64_t i = lane; i < 3 * pass.columns; i += row_lanes) to[i] = sums[i];
    });
}

/// Returns gelu(x), and stores its derivative in `slope` unless `slope` is null.
template <typename Real>
ANYACCEL_ON_BOTH Real gelu_of(Real x, bool tanh, Real* slope) {
  Real part, change;
  if (tanh) {
    constexpr Real root = static_cast<Real>(0.79788456080286536),
                   cubic = static_cast<Real>(0.044715);
    part = 1 / (1 + row_exp(-2 * root * (x + cubic * x * x * x)));
    change = part * (1 - part) * 2 * root * (1 + 3 * cubic * x * x);
  } else {
    part = real_erfc(-x * static_cast<Real>(0.70710678118654752)) / 2;
    change = static_cast<Real>(0.39894228040143268) * row_exp(-x * x / 2);
  }
  if (slope) *slope = part + x * change;
  return x * part;
}

/// Each thread processes 16 bytes. The rows form one contiguous array.
template <typename S>
ANYACCEL_ON_BOTH void gelu_block(const Gelu<S>& pass, bool wide, std::int64_t rows,
                                 std::int64_t block, int lane) {
  using Some = Columns<S>;
  const std::int64_t all = rows * pass.columns, at = (block * row_lanes + lane) * Some::count;
  if (at >= all) return;
  const int there = all - at < Some::count ? static_cast<int>(all - at) : Some::count;
  Some from = Some::template load<Reads::written>(pass.from + at, there, wide);
  if (wide) {
    const Some bias = Some::load(pass.bias + at % pass.columns, there, wide);
    for (int j = 0; j < Some::count; ++j) from.at[j] += bias.at[j];
  } else {
    // A row may end among these elements.
    for (int j = 0; j < Some::count; ++j)
      if (j < there)
        from.at[j] += static_cast<typename Some::Real>(pass.bias[(at + j) % pass.columns]);
  }
  for (int j = 0; j < Some::count; ++j)
    from.at[j] = gelu_of<typename Some::Real>(from.at[j], pass.tanh, nullptr);
  from.store(pass.to + at, there, wide);
}

/// Number of blocks per part in sums over rows. Each block processes a strip of row_lanes times 16
/// bytes of columns.
template <typename S>
ANYACCEL_ON_BOTH std::int64_t column_strips(std::int64_t columns) {
  constexpr int width = row_lanes * Sixteen<S>::count;
  return (columns + width - 1) / width;
}

/// Sets parts[part][column] to the sum of value_at(row, column, there) over the part's rows.
template <typename S, typename ValueAt>
ANYACCEL_ON_BOTH void column_block(std::int64_t columns, std::int64_t rows,
                                   std::int64_t rows_of_part, std::int64_t block, int lane,
                                   typename RealOf<S>::type* parts, const ValueAt& value_at) {
  using Some = Columns<S>;
  const std::int64_t strips = column_strips<S>(columns), part = block / strips;
  const std::int64_t column = (block % strips * row_lanes + lane) * Some::count;
  if (column >= columns) return;
  const int there =
      columns - column < Some::count ? static_cast<int>(columns - column) : Some::count;
  const std::int64_t end = (part + 1) * rows_of_part < rows ? (part + 1) * rows_of_part : rows;
  Some sums;
  for (auto& sum : sums.at) sum = 0;
  for (std::int64_t row = part * rows_of_part; row < end; ++row) {
    const Some values = value_at(row, column, there);
    for (int j = 0; j < Some::count; ++j) sums.at[j] += values.at[j];
  }
  for (int j = 0; j < Some::count; ++j)
    if (j < there) parts[part * columns + column + j] = sums.at[j];
}

/// Multiplies `grad` by the derivative of gelu and sums the results over the rows of a part.
template <typename S>
ANYACCEL_ON_BOTH void gelu_grad_block(const Gelu<S>& pass, S* grad, bool wide, std::int64_t rows,
                                      std::int64_t rows_of_part, std::int64_t block, int lane,
                                      typename RealOf<S>::type* parts) {
  using Some = Columns<S>;
  column_block<S>(pass.columns, rows, rows_of_part, block, lane, parts,
                  [&](std::int64_t row, std::int64_t column, int there) {
                    const std::int64_t at = row * pass.columns + column;
                    const Some from = Some::load(pass.from + at, there, wide),
                               bias = Some::load(pass.bias + column, there, wide);
                    Some out = Some::template load<Reads::written>(grad + at, there, wide);
                    for (int j = 0; j < Some::count; ++j) {
                      typename Some::Real slope;
                      gelu_of<typename Some::Real>(from.at[j] + bias.at[j], pass.tanh, &slope);
                      out.at[j] *= slope;
                    }
                    out.store(grad + at, there, wide);
                    return out;
                  });
}

template <typename S>
ANYACCEL_ON_BOTH void column_sums_block(const S* from, std::int64_t columns, bool wide,
                                        std::int64_t rows, std::int64_t rows_of_part,
                                        std::int64_t block, int lane,
                                        typename RealOf<S>::type* parts) {
  column_block<S>(columns, rows, rows_of_part, block, lane, parts,
                  [&](std::int64_t row, std::int64_t column, int there) {
                    return Columns<S>::load(from + row * columns + column, there, wide);
                  });
}

/// Number of blocks that add up the parts. Each block processes as many columns as a warp has
/// lanes. Each warp of the block adds some of the parts, and then the sums of the warps are added
/// in order.
ANYACCEL_ON_BOTH std::int64_t sum_blocks(std::int64_t columns, int groups) {
  return (columns * groups + warp_lanes - 1) / warp_lanes;
}
template <typename S, typename Each>
ANYACCEL_ON_BOTH void sum_parts_block(const PartSums<S>& pass, std::int64_t block, const Each& each,
                                      typename RealOf<S>::type* shared) {
  using Real = typename RealOf<S>::type;
  constexpr int warps = row_lanes / warp_lanes;
  const std::int64_t all = pass.columns * pass.groups;
  each([&](int lane) {
    const std::int64_t column = block * warp_lanes + lane % warp_lanes;
    Real sum = 0;
    if (column < all)
      for (std::int64_t part = lane / warp_lanes; part < pass.parts; part += warps)
        sum += pass.from[part * all + column];
    shared[lane] = sum;
  });
  each([&](int lane) {
    const std::int64_t column = block * warp_lanes + lane;
    if (lane >= warp_lanes || column >= all) return;
    Real sum = 0;
    for (int warp = 0; warp < warps; ++warp) sum += shared[warp * warp_lanes + lane];
    const std::int64_t group = column / pass.columns;
    S* const to = group == 0 ? pass.to[0] : group == 1 ? pass.to[1] : pass.to[2];
    if (to) to[column % pass.columns] = static_cast<S>(sum);
  });
}

}  // namespace anyaccel::ops
