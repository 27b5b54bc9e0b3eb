// RMS norm, gated activations and rotary embeddings for rows, with gradients, in float and double.
#if defined(ANYACCEL_TRAINING_DECODER_ROWS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRAINING_DECODER_ROWS_ISA_H)
#undef ANYACCEL_TRAINING_DECODER_ROWS_ISA_H
#else
#define ANYACCEL_TRAINING_DECODER_ROWS_ISA_H
#endif

#include "kernels/simd/gelu_isa.h"
#include "kernels/simd/math_isa.h"
#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/training/decoder_rows.h"

ANYACCEL_ISA_BEGIN
namespace {

inline Vec opposite(Vec a) { return a * Vec::of(-1); }

inline Real inverse_square_root(Real x) {
#if ANYACCEL_DOUBLE
  return 1 / __builtin_sqrt(x);
#else
  return 1 / __builtin_sqrtf(x);
#endif
}

/// Returns 1 / (1 + exp(-x)). Results close to the smallest normal number become 0, because the
/// range of exp2_of() is limited.
inline Vec sigmoid_of(Vec x) {
  const Vec limit = Vec::of(ANYACCEL_DOUBLE ? 700 : 87);
  const Vec e = exp2_of(min_of(opposite(x), limit) * Vec::of(log2_e));
  const Vec part = Vec::of(1) / (Vec::of(1) + e);
  const Vec low = {opposite(x).x > limit.x ? Vec::of(0).x : part.x};
  return {x.x == x.x ? low.x : x.x};
}

/// Computes gate(x) and its derivative.
template <Gate gate>
inline __attribute__((always_inline)) void gate_of(Vec x, Vec* value, Vec* slope) {
  if constexpr (gate == Gate::silu) {
    const Vec part = sigmoid_of(x);
    *value = x * part;
    *slope = Vec::fma(*value, Vec::of(1) + opposite(part), part);
  } else if constexpr (gate == Gate::relu || gate == Gate::relu2) {
    const auto above = x.x > Vec::of(0).x;
    const Vec below = {x.x == x.x ? Vec::of(0).x : x.x};  // NaN for NaN
    *value = {above ? x.x : below.x};
    *slope = {above ? Vec::of(1).x : Vec::of(0).x};
    if constexpr (gate == Gate::relu2) {
      *slope = *value + *value;
      *value = *value * *value;
    }
  } else {
    gelu_of(x, gate == Gate::gelu_tanh, value, slope);
  }
}

template <Gate gate, typename S>
void gated_by(const GatedRows<S>& pass, std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = pass.columns;
  for (std::int64_t row = begin; row < end; ++row) {
    const S* const from = pass.from + 2 * row * columns;
    S* const to = pass.to + row * columns;
    each_vector(
        columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
          Vec value, slope;
          gate_of<gate>(load_some(from + i, n), &value, &slope);
          store_some(value * load_some(from + columns + i, n), to + i, n);
        });
  }
}

template <Gate gate, typename S>
void gated_gradient_by(const GatedRows<S>& pass, const S* grad, S* grad_from, std::int64_t begin,
                       std::int64_t end) {
  const std::int64_t columns = pass.columns;
  for (std::int64_t row = begin; row < end; ++row) {
    const S* const from = pass.from + 2 * row * columns;
    S* const to = grad_from + 2 * row * columns;
    each_vector(
        columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
          Vec value, slope;
          gate_of<gate>(load_some(from + i, n), &value, &slope);
          const Vec change = load_some(grad + row * columns + i, n);
          store_some(change * slope * load_some(from + columns + i, n), to + i, n);
          store_some(change * value, to + columns + i, n);
        });
  }
}

/// Rotates the pairs of one head by +sin or -sin and copies the other elements.
template <typename S>
inline void rotate_head(const S* from, const Real* cos, const Real* sin, Real sign,
                        std::int64_t half, std::int64_t dim, S* to) {
  const Vec signs = Vec::of(sign);
  each_vector(
      half, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        const Vec c = load_some(cos + i, n), s = load_some(sin + i, n) * signs;
        const Vec first = load_some(from + i, n), second = load_some(from + half + i, n);
        store_some(Vec::fma(first, c, opposite(second * s)), to + i, n);
        store_some(Vec::fma(second, c, first * s), to + half + i, n);
      });
  for (std::int64_t i = 2 * half; i < dim; ++i) to[i] = from[i];
}

/// Calls function(fused head, separate head) for each head of q, k or v in a row.
template <typename S, typename Function>
inline void each_head(const HeadRows<S>& heads, S* fused, std::int64_t dim, std::int64_t batch,
                      std::int64_t time, const Function& function) {
  S* const at = heads.at + batch * heads.batch_step + time * heads.time_step;
  for (std::int64_t head = 0; head < heads.heads; ++head)
    function(fused + head * dim, at + head * heads.head_step);
}

/// `join`: from q, k and v to `fused`, with the opposite rotation.
template <bool join, typename S>
void rotary(const RotaryRows<S>& pass, std::int64_t begin, std::int64_t end) {
  const std::int64_t dim = pass.dim;
  const std::int64_t width = (pass.q.heads + pass.k.heads + pass.v.heads) * dim;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t batch = row / pass.time, time = row % pass.time;
    const Real* const cos = pass.cos + row % pass.table_rows * pass.half;
    const Real* const sin = pass.sin + row % pass.table_rows * pass.half;
    S* const q = pass.fused + row * width;
    S* const k = q + pass.q.heads * dim;
    S* const v = k + pass.k.heads * dim;
    const auto turn = [&](S* fused, S* head) {
      if (join)
        rotate_head(head, cos, sin, Real{-1}, pass.half, dim, fused);
      else
        rotate_head(fused, cos, sin, Real{1}, pass.half, dim, head);
    };
    each_head(pass.q, q, dim, batch, time, turn);
    each_head(pass.k, k, dim, batch, time, turn);
    each_head(pass.v, v, dim, batch, time, [&](S* fused, S* head) {
      S* const to = join ? fused : head;
      const S* const from = join ? head : fused;
      __builtin_memcpy(to, from, static_cast<std::size_t>(dim) * sizeof(S));
    });
  }
}

}  // namespace

template <typename S>
void rms_norm(const RmsNorm<S>& pass, std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = pass.columns;
  const Vec offset = Vec::of(pass.offset);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * columns;
    const S* from = pass.x + at;
    Vec squares = Vec::of(0);
    if (pass.residual) {
      S* const sum = pass.sum + at;
      each_vector(
          columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
            store_some(load_some(from + i, n) + load_some(pass.residual + at + i, n), sum + i, n);
            // Read the rounded sum, so that the norm of the stored sum is exact.
            const Vec x = load_some(sum + i, n);
            squares = Vec::fma(x, x, squares);
          });
      from = sum;
    } else {
      each_vector(
          columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
            const Vec x = load_some(from + i, n);
            squares = Vec::fma(x, x, squares);
          });
    }
    const Real rstd = inverse_square_root(total(squares) / static_cast<Real>(columns) + pass.eps);
    pass.rstd[row] = rstd;
    const Vec scale = Vec::of(rstd);
    each_vector(
        columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
          store_some(load_some(from + i, n) * scale * (load_some(pass.weight + i, n) + offset),
                     pass.out + at + i, n);
        });
  }
}

template <typename S>
void rms_norm_gradient(const RmsNormGrad<S>& pass, std::int64_t begin, std::int64_t end,
                       Real* weight_grad) {
  const std::int64_t columns = pass.columns;
  const Vec offset = Vec::of(pass.offset);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * columns;
    const Real rstd = pass.rstd[row];
    const Vec scale = Vec::of(rstd);
    Vec along = Vec::of(0);
    each_vector(
        columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
          const Vec grad = load_some(pass.grad + at + i, n);
          const Vec normal = load_some(pass.sum + at + i, n) * scale;
          const Vec product = grad * normal;
          along = Vec::fma(product, load_some(pass.weight + i, n) + offset, along);
          if (weight_grad) store_some(load_some(weight_grad + i, n) + product, weight_grad + i, n);
        });
    // The gradient has no component along x, because scaling x does not change the result.
    const Vec tilt = Vec::of(-total(along) / static_cast<Real>(columns) * rstd);
    each_vector(
        columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
          const Vec scaled =
              load_some(pass.grad + at + i, n) * (load_some(pass.weight + i, n) + offset);
          Vec to = Vec::fma(load_some(pass.sum + at + i, n), tilt, scaled) * scale;
          if (pass.plus) to = to + load_some(pass.plus + at + i, n);
          store_some(to, pass.to + at + i, n);
        });
  }
}

template <typename S>
void gated(const GatedRows<S>& pass, std::int64_t begin, std::int64_t end) {
  switch (pass.gate) {
    case Gate::silu: return gated_by<Gate::silu>(pass, begin, end);
    case Gate::gelu: return gated_by<Gate::gelu>(pass, begin, end);
    case Gate::gelu_tanh: return gated_by<Gate::gelu_tanh>(pass, begin, end);
    case Gate::relu: return gated_by<Gate::relu>(pass, begin, end);
    case Gate::relu2: return gated_by<Gate::relu2>(pass, begin, end);
  }
}

template <typename S>
void gated_gradient(const GatedRows<S>& pass, const S* grad, S* grad_from, std::int64_t begin,
                    std::int64_t end) {
  switch (pass.gate) {
    case Gate::silu: return gated_gradient_by<Gate::silu>(pass, grad, grad_from, begin, end);
    case Gate::gelu: return gated_gradient_by<Gate::gelu>(pass, grad, grad_from, begin, end);
    case Gate::gelu_tanh:
      return gated_gradient_by<Gate::gelu_tanh>(pass, grad, grad_from, begin, end);
    case Gate::relu: return gated_gradient_by<Gate::relu>(pass, grad, grad_from, begin, end);
    case Gate::relu2: return gated_gradient_by<Gate::relu2>(pass, grad, grad_from, begin, end);
  }
}

template <typename S>
void rotary_split(const RotaryRows<S>& pass, std::int64_t begin, std::int64_t end) {
  rotary<false>(pass, begin, end);
}

template <typename S>
void rotary_join(const RotaryRows<S>& pass, std::int64_t begin, std::int64_t end) {
  rotary<true>(pass, begin, end);
}

ANYACCEL_ISA_END
#endif
