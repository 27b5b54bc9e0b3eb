// Row-wise operations of a decoder layer with their gradients: RMS norm, gated activations and
// rotary embeddings. Works on plain arrays; independent of torch. src/ops/decoder_training provides
// the memory and the threads. All functions process the rows [begin, end), and may run concurrently
// on different rows. `S` is the type in memory: float, Bf16 or Fp16 (with arithmetic in float), or
// double.
#pragma once

#include <cstdint>

#include "kernels/decoder/gate.h"
#include "kernels/simd/isa.h"
#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

/// sum = x + residual, and out = sum * rstd * (weight + offset) with rstd = 1 / sqrt(mean(sum^2) +
/// eps).
template <typename S>
struct RmsNorm {
  using Real = typename RealOf<S>::type;
  std::int64_t columns;
  const S* x;
  const S* residual;  ///< may be null
  S* sum;             ///< null if `residual` is null
  const S* weight;
  S* out;
  Real* rstd;  ///< [row]
  Real eps;
  Real offset;  ///< 0, or 1 for norms that multiply by 1 + weight
};
template <typename S>
void rms_norm_rows(Isa isa, const RmsNorm<S>& pass, std::int64_t begin, std::int64_t end) noexcept;

/// Gradient of RmsNorm.
template <typename S>
struct RmsNormGrad {
  using Real = typename RealOf<S>::type;
  std::int64_t columns;
  const S* grad;  ///< gradient of `out`
  const S* plus;  ///< gradient of `sum` from its other uses; may be null
  const S* sum;   ///< input of the norm
  const S* weight;
  const Real* rstd;
  S* to;  ///< gradient of `sum`
  Real offset;
};
/// Adds these rows' contributions to the weight's gradient, weight_grad[columns], unless it is
/// null.
template <typename S>
void rms_norm_grad(Isa isa, const RmsNormGrad<S>& pass, std::int64_t begin, std::int64_t end,
                   typename RealOf<S>::type* weight_grad) noexcept;

/// to = gate(from[0, columns)) * from[columns, 2 * columns)
template <typename S>
struct GatedRows {
  std::int64_t columns;  ///< columns of `to`; `from` has twice as many
  const S* from;
  S* to;
  Gate gate;
};
template <typename S>
void gated_rows(Isa isa, const GatedRows<S>& pass, std::int64_t begin, std::int64_t end) noexcept;

/// Computes the gradient of `from`, [row][2 * columns], from `grad`, the gradient of `to`. Does not
/// use `to`.
template <typename S>
void gated_rows_grad(Isa isa, const GatedRows<S>& pass, const S* grad, S* grad_from,
                     std::int64_t begin, std::int64_t end) noexcept;

/// A query, key or value: heads of `dim` contiguous elements, addressed by batch, time and head.
template <typename S>
struct HeadRows {
  S* at;
  std::int64_t batch_step, time_step, head_step;  ///< in elements
  std::int64_t heads;
};

/// Rotates query and key heads and copies value heads between a fused row and three arrays.
template <typename S>
struct RotaryRows {
  using Real = typename RealOf<S>::type;
  std::int64_t time;  ///< rows per batch entry
  std::int64_t dim, half;
  std::int64_t table_rows;  ///< row i uses row i % table_rows of the tables
  const Real* cos;          ///< [table_rows][half]
  const Real* sin;
  S* fused;  ///< [batch * time][all heads * dim]
  HeadRows<S> q, k, v;
};
/// Reads `fused` and writes q, k and v.
template <typename S>
void rotary_split_rows(Isa isa, const RotaryRows<S>& pass, std::int64_t begin,
                       std::int64_t end) noexcept;
/// Reads the gradients of q, k and v, rotates back and writes `fused`.
template <typename S>
void rotary_join_rows(Isa isa, const RotaryRows<S>& pass, std::int64_t begin,
                      std::int64_t end) noexcept;

}  // namespace anyaccel::ops
