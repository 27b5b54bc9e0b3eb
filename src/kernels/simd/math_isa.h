// Elementary functions on vectors of `Real`: exponential, maximum, minimum and difference.
#if defined(ANYACCEL_SIMD_MATH_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_MATH_ISA_H)
#undef ANYACCEL_SIMD_MATH_ISA_H
#else
#define ANYACCEL_SIMD_MATH_ISA_H
#endif

#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr Real log2_e = static_cast<Real>(1.4426950408889634);
constexpr Real infinity = static_cast<Real>(__builtin_inf());

#if ANYACCEL_DOUBLE
inline Vec exp2_of(Vec a) {
  Vec out;
  for (int i = 0; i < Vec::width; ++i) out.x[i] = __builtin_exp2(a.x[i]);
  return out;
}
#else
template <int width>
struct Bits {
  typedef unsigned type __attribute__((vector_size(4 * width)));
};
template <>
struct Bits<1> {
  using type = unsigned;
};

/// Returns 2^a for a up to 127, with a relative error below 2^-22. Returns 0 below -126, and NaN
/// for NaN.
inline Vec exp2_of(Vec a) {
  const Vec low = Vec::of(-126.0F);
  const Vec x = {a.x < low.x ? low.x : a.x};
  const Vec shifted = x + Vec::of(12582912.0F);  // 1.5 * 2^23: the lowest bits are the integer part
  const Vec r = x + Vec::fma(shifted + Vec::of(-12582912.0F), Vec::of(-1.0F), Vec::of(0.0F));
  Vec p = Vec::of(1.5403530e-4F);
  p = Vec::fma(p, r, Vec::of(1.3333558e-3F));
  p = Vec::fma(p, r, Vec::of(9.6181291e-3F));
  p = Vec::fma(p, r, Vec::of(5.5504109e-2F));
  p = Vec::fma(p, r, Vec::of(2.4022651e-1F));
  p = Vec::fma(p, r, Vec::of(6.9314718e-1F));
  p = Vec::fma(p, r, Vec::of(1.0F));
  typename Bits<Vec::width>::type bits, whole;
  __builtin_memcpy(&bits, &p.x, sizeof bits);
  __builtin_memcpy(&whole, &shifted.x, sizeof whole);
  bits += whole * (1U << 23);
  __builtin_memcpy(&p.x, &bits, sizeof bits);
  const Vec result = {a.x < low.x ? Vec::of(0.0F).x : p.x};
  return {a.x == a.x ? result.x : a.x};
}
#endif

inline Vec max_of(Vec a, Vec b) { return {a.x > b.x ? a.x : b.x}; }
inline Vec min_of(Vec a, Vec b) { return {a.x < b.x ? a.x : b.x}; }
inline Vec minus(Vec a, Vec b) { return Vec::fma(b, Vec::of(-1), a); }

}  // namespace
ANYACCEL_ISA_END
#endif
