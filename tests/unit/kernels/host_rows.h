// Runs the launches of kernels/transformer/rows.cu on the host, starting with the last block.
#pragma once

#include <vector>

#include "kernels/transformer/rows_blocks.h"
#include "unit/kernels/device_elements.h"

namespace op_tests {

using namespace anyaccel::ops;

using RowLanes = HostLanes<row_lanes>;

/// A block's shared memory, initialized to NaN, followed by guard elements.
template <typename Real>
class RowMemory {
 public:
  explicit RowMemory(std::int64_t count)
      : count_(static_cast<std::size_t>(count)),
        memory_(count_ + 8, std::numeric_limits<Real>::quiet_NaN()) {}
  Real* fresh() {
    std::fill(memory_.begin(), memory_.end(), std::numeric_limits<Real>::quiet_NaN());
    return memory_.data();
  }
  bool whole() const {
    return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(count_), memory_.end(),
                       [](Real x) { return std::isnan(x); });
  }

 private:
  std::size_t count_;
  std::vector<Real> memory_;
};

template <typename T>
void run_add_norm(const AddNorm<T>& pass, std::int64_t rows, bool backwards) {
  const bool wide = are_wide<T>(pass.columns, pass.product, pass.bias, pass.residual, pass.sum,
                                pass.out, pass.weight, pass.shift);
  RowMemory<typename RealOf<T>::type> shared(add_norm_shared(pass.columns, Sixteen<T>::count));
  for (std::int64_t row = rows; row-- > 0;)
    add_norm_block(pass, wide, row, RowLanes{backwards}, shared.fresh());
  EXPECT_TRUE(shared.whole()) << "written past the shared memory of add_norm";
}

template <typename T>
void run_norm_grad(const NormGrad<T>& pass, std::int64_t rows, typename RealOf<T>::type* parts,
                   bool backwards) {
  using Real = typename RealOf<T>::type;
  const bool wide = are_wide<T>(pass.columns, pass.grad, pass.sum, pass.out, pass.weight,
                                pass.shift, pass.plus, pass.grad_sum, pass.grad_product);
  const RowParts division = norm_parts(rows);
  RowMemory<Real> shared(norm_grad_shared(pass.columns, sizeof(Real)));
  for (std::int64_t part = division.count; part-- > 0;)
    norm_grad_block(pass, wide, rows, division.each, part,
                    sums_are_shared(pass.columns, sizeof(Real)), RowLanes{backwards},
                    shared.fresh(), parts);
  EXPECT_TRUE(shared.whole()) << "written past the shared memory of norm_grad";
}

template <typename T>
void run_gelu(const Gelu<T>& pass, std::int64_t rows) {
  constexpr std::int64_t each = row_lanes * Sixteen<T>::count;
  for (std::int64_t block = (rows * pass.columns + each - 1) / each; block-- > 0;)
    for (int lane = row_lanes; lane-- > 0;)
      gelu_block(pass, are_wide<T>(pass.columns, pass.from, pass.bias, pass.to), rows, block, lane);
}

template <typename T>
void run_gelu_grad(const Gelu<T>& pass, T* grad, std::int64_t rows,
                   typename RealOf<T>::type* parts) {
  const RowParts division = column_parts(rows);
  for (std::int64_t block = division.count * column_strips<T>(pass.columns); block-- > 0;)
    for (int lane = row_lanes; lane-- > 0;)
      gelu_grad_block(pass, grad, are_wide<T>(pass.columns, pass.from, pass.bias, grad), rows,
                      division.each, block, lane, parts);
}

template <typename T>
void run_column_sums(const T* from, std::int64_t columns, std::int64_t rows,
                     typename RealOf<T>::type* parts) {
  const RowParts division = column_parts(rows);
  for (std::int64_t block = division.count * column_strips<T>(columns); block-- > 0;)
    for (int lane = row_lanes; lane-- > 0;)
      column_sums_block(from, columns, are_wide<T>(columns, from), rows, division.each, block, lane,
                        parts);
}

template <typename T>
void run_sum_parts(const PartSums<T>& sums, bool backwards) {
  RowMemory<typename RealOf<T>::type> shared(row_lanes);
  for (std::int64_t block = sum_blocks(sums.columns, sums.groups); block-- > 0;)
    sum_parts_block(sums, block, RowLanes{backwards}, shared.fresh());
  EXPECT_TRUE(shared.whole()) << "written past the shared memory of sum_parts";
}

}  // namespace op_tests
