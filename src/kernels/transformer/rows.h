// The passes of a transformer layer other than its large matrix products, over plain arrays.
// Independent of torch; src/ops/transformer has the products, the memory and the threads. All
// functions process the rows [begin, end), and may run concurrently on different rows. `S` is the
// type in memory: float, Bf16, Fp16 (arithmetic in float) or double.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// The type of the arithmetic.
template <typename S>
struct RealOf {
  using type = float;
};
template <>
struct RealOf<double> {
  using type = double;
};

/// The key, the row and the column alone decide whether an element is kept, so no mask is stored.
struct Dropout {
  std::uint64_t key = 0;
  std::uint32_t threshold = 0;  ///< ratio * 2^32: smaller draws are dropped; 0: all are kept
  double scale = 1;             ///< factor of the kept elements
};

/// r = residual + dropout(product + bias), and its norm. Null arrays are skipped.
template <typename S>
struct AddNorm {
  using Real = typename RealOf<S>::type;
  std::int64_t columns;
  const S* product;
  const S* bias;
  const S* residual;
  S* sum;  ///< r
  S* out;  ///< (r - mean) * rstd * weight + shift
  const S* weight;
  const S* shift;
  Real eps;
  Real* stats;  ///< [row][2]: mean and rstd
  Dropout dropout;
};
template <typename S>
void add_norm(Isa isa, const AddNorm<S>& pass, std::int64_t begin, std::int64_t end,
              typename RealOf<S>::type* scratch) noexcept;

/// Gradients of AddNorm: of r in `grad_sum` (with `plus` added), and of the product in
/// `grad_product`.
template <typename S>
struct NormGrad {
  using Real = typename RealOf<S>::type;
  std::int64_t columns;
  const S* grad;  ///< of the norm's result
  const S* sum;   ///< r, or null if the norm's result is given in `out`
  const S* out;
  const S* weight;  ///< null: no norm, the gradient passes through unchanged
  const S* shift;
  const Real* stats;
  const S* plus;
  S* grad_sum;      ///< may be null without a norm
  S* grad_product;  ///< null: the same as grad_sum
  Dropout dropout;
};
/// Adds the sums over these rows to sums[3][columns]: the gradients of weight, shift and the
/// product's bias.
template <typename S>
void norm_grad(Isa isa, const NormGrad<S>& pass, std::int64_t begin, std::int64_t end,
               typename RealOf<S>::type* sums, typename RealOf<S>::type* scratch) noexcept;

/// to = gelu(from + bias); `tanh` selects the tanh approximation. May run in place.
template <typename S>
struct Gelu {
  std::int64_t columns;
  const S* from;
  const S* bias;
  S* to;
  bool tanh;
};
template <typename S>
void gelu(Isa isa, const Gelu<S>& pass, std::int64_t begin, std::int64_t end) noexcept;
/// grad *= gelu'(from + bias); `to` is not used. Adds the sums over these rows to sums[columns].
template <typename S>
void gelu_grad(Isa isa, const Gelu<S>& pass, S* grad, std::int64_t begin, std::int64_t end,
               typename RealOf<S>::type* sums) noexcept;

/// rows += bias
template <typename S>
void add_bias(Isa isa, S* rows, const S* bias, std::int64_t columns, std::int64_t begin,
              std::int64_t end) noexcept;
/// sums[column] += sum of the rows
template <typename S>
void column_sums(Isa isa, const S* rows, std::int64_t columns, std::int64_t begin, std::int64_t end,
                 typename RealOf<S>::type* sums) noexcept;

/// Conversion to and from the type of the arithmetic.
template <typename S>
void widen(Isa isa, const S* from, std::int64_t count, typename RealOf<S>::type* to) noexcept;
template <typename S>
void narrow(Isa isa, const typename RealOf<S>::type* from, std::int64_t count, S* to) noexcept;

/// to[column] = whether the element of the row is kept, for `columns` columns.
void kept(const Dropout& dropout, std::int64_t row, std::int64_t columns, bool* to) noexcept;

}  // namespace anyaccel::ops
