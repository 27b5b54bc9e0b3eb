// GELU (Hendrycks and Gimpel, arXiv:1606.08415) and its derivative, in float and double.
#if defined(ANYACCEL_SIMD_GELU_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_GELU_ISA_H)
#undef ANYACCEL_SIMD_GELU_ISA_H
#else
#define ANYACCEL_SIMD_GELU_ISA_H
#endif

#include "kernels/simd/normal_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

#if ANYACCEL_DOUBLE
inline Real normal_below(Real x) { return __builtin_erfc(-x * 0.70710678118654752) / 2; }

/// Computes gelu(x) and its derivative.
inline void gelu_of(Vec x, bool tanh, Vec* value, Vec* slope) {
  for (int i = 0; i < Vec::width; ++i) {
    const Real at = x.x[i];
    Real part, change;
    if (tanh) {
      const Real z = 0.79788456080286536 * (at + 0.044715 * at * at * at);
      part = 1 / (1 + __builtin_exp(-2 * z));
      change = part * (1 - part) * 2 * 0.79788456080286536 * (1 + 3 * 0.044715 * at * at);
    } else {
      part = normal_below(at);
      change = 0.39894228040143268 * __builtin_exp(-at * at / 2);
    }
    value->x[i] = at * part;
    slope->x[i] = part + at * change;
  }
}
inline Vec gelu_of(Vec x, bool tanh) {
  Vec value, slope;
  gelu_of(x, tanh, &value, &slope);
  return value;
}
#else

/// Returns gelu(x) and stores its derivative in `slope`.
inline Vec gelu_of(Vec x, bool tanh, Vec* slope) {
  Vec part, change;
  if (tanh) {
    const Vec square = x * x;
    const Vec z =
        x * Vec::fma(square, Vec::of(-2 * 0.79788456F * 0.044715F), Vec::of(-2 * 0.79788456F));
    const Vec most = Vec::of(88);
    part = Vec::of(1) / (Vec::of(1) + exp_of({z.x > most.x ? most.x : z.x}));
    const Vec steep =
        Vec::fma(square, Vec::of(6 * 0.79788456F * 0.044715F), Vec::of(2 * 0.79788456F));
    change = part * (Vec::of(1) + negated(part)) * steep;
  } else {
    part = normal_below(x, &change);
  }
  *slope = Vec::fma(x, change, part);
  return x * part;
}
inline Vec gelu_of(Vec x, bool tanh) {
  Vec slope;
  return gelu_of(x, tanh, &slope);
}
inline void gelu_of(Vec x, bool tanh, Vec* value, Vec* slope) { *value = gelu_of(x, tanh, slope); }
#endif

}  // namespace
ANYACCEL_ISA_END
#endif
