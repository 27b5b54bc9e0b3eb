// Row-wise operations of a transformer layer: norms, activations, biases and dropout. Works on
// plain arrays; independent of torch. src/ops/transformer provides the matrix products, the memory
// and the threads. All functions process the rows [begin, end), and may run concurrently on
// different rows. `S` is the type in memory: float, Bf16 or Fp16 (with arithmetic in float), or
// double.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Compute type for elements of type S.
template <typename S>
struct RealOf {
  using type = float;
};
template <>
struct RealOf<double> {
  using type = double;
};

/// Dropout parameters. The key, the row and the column determine whether an element is kept, so no
/// mask is stored.
struct Dropout {
  std::uint64_t key = 0;
  std::uint32_t threshold = 0;  ///< ratio * 2^32; smaller random numbers drop elements; 0 keeps all
  double scale = 1;             ///< scale factor for kept elements
};

/// r = residual + dropout(product + bias), and the norm of r. Null arrays are skipped.
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

/// Gradients of AddNorm. `grad_sum` receives the gradient of r, with `plus` added, and
/// `grad_product` receives the gradient of the product.
template <typename S>
struct NormGrad {
  using Real = typename RealOf<S>::type;
  std::int64_t columns;
  const S* grad;  ///< gradient of the norm's result
  const S* sum;   ///< r; if null, the norm's result is read from `out`
  const S* out;
  const S* weight;  ///< null if there is no norm and the gradient passes through unchanged
  const S* shift;
  const Real* stats;
  const S* plus;
  S* grad_sum;      ///< may be null if there is no norm
  S* grad_product;  ///< may be null if it equals grad_sum
  Dropout dropout;
};
/// Adds these rows' contributions to the gradients of weight, shift and the product's bias,
/// sums[3][columns].
template <typename S>
void norm_grad(Isa isa, const NormGrad<S>& pass, std::int64_t begin, std::int64_t end,
               typename RealOf<S>::type* sums, typename RealOf<S>::type* scratch) noexcept;

/// to = gelu(from + bias). `tanh` selects the tanh approximation. `to` may be `from`.
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
/// Computes grad *= gelu'(from + bias); `to` is not used. Adds the sums over these rows to
/// sums[columns].
template <typename S>
void gelu_grad(Isa isa, const Gelu<S>& pass, S* grad, std::int64_t begin, std::int64_t end,
               typename RealOf<S>::type* sums) noexcept;

/// Adds the bias to each row.
template <typename S>
void add_bias(Isa isa, S* rows, const S* bias, std::int64_t columns, std::int64_t begin,
              std::int64_t end) noexcept;
/// Adds the sum of these rows to sums[columns].
template <typename S>
void column_sums(Isa isa, const S* rows, std::int64_t columns, std::int64_t begin, std::int64_t end,
                 typename RealOf<S>::type* sums) noexcept;

/// Convert to and from the compute type.
template <typename S>
void widen(Isa isa, const S* from, std::int64_t count, typename RealOf<S>::type* to) noexcept;
template <typename S>
void narrow(Isa isa, const typename RealOf<S>::type* from, std::int64_t count, S* to) noexcept;

/// Sets to[column] to true if dropout keeps the element in that column of the row, for `columns`
/// columns.
void kept(const Dropout& dropout, std::int64_t row, std::int64_t columns, bool* to) noexcept;

}  // namespace anyaccel::ops
