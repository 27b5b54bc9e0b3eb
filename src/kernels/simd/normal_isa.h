// The normal distribution. Float only.
#if defined(ANYACCEL_SIMD_NORMAL_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_NORMAL_ISA_H)
#undef ANYACCEL_SIMD_NORMAL_ISA_H
#else
#define ANYACCEL_SIMD_NORMAL_ISA_H
#endif

#include "kernels/simd/math_isa.h"
#include "kernels/simd/vec.h"

#if !ANYACCEL_DOUBLE
ANYACCEL_ISA_BEGIN
namespace {

inline Vec negated(Vec a) { return a * Vec::of(-1); }

/// Returns exp(a) for a <= 88, and 0 for large negative numbers.
inline Vec exp_of(Vec a) { return exp2_of(a * Vec::of(log2_e)); }

/// Returns the CDF of the standard normal distribution at x, with an absolute error of at most 1e-7
/// (Abramowitz and Stegun 7.1.26). Stores the density at x.
inline Vec normal_below(Vec x, Vec* density) {
  const Vec size = max_of(x, negated(x));
  const Vec t = Vec::of(1) / Vec::fma(size, Vec::of(0.3275911F * 0.70710678F), Vec::of(1));
  const Vec e = exp_of(x * x * Vec::of(-0.5F));
  Vec p = Vec::of(1.061405429F / 2);
  p = Vec::fma(p, t, Vec::of(-1.453152027F / 2));
  p = Vec::fma(p, t, Vec::of(1.421413741F / 2));
  p = Vec::fma(p, t, Vec::of(-0.284496736F / 2));
  p = Vec::fma(p, t, Vec::of(0.254829592F / 2));
  const Vec above = p * t * e;  // probability of exceeding |x|
  *density = e * Vec::of(0.39894228F);
  return {x.x < Vec::of(0).x ? above.x : (Vec::of(1) + negated(above)).x};
}

}  // namespace
ANYACCEL_ISA_END
#endif
#endif
