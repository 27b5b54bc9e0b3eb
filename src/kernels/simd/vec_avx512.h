// A vector of sixteen floats. vec_scalar.h documents the members. Include vec.h, which has the
// include guard.
#if defined(__x86_64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA avx512  // default for tools that parse only this file
#endif

#include "kernels/simd/element.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

using Real = float;

struct Vec {
  static constexpr int width = 16;
  __m512 x;

  static Vec of(float value) { return {_mm512_set1_ps(value)}; }
  static Vec load(const float* from) { return {_mm512_loadu_ps(from)}; }
  /// Uses a single instruction to move each word to the upper half of a float.
  static Vec load(const Bf16* from) {
    const __m512i words = _mm512_castsi256_si512(load16(from));
    return {
        _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaaU, half_of_word(), words))};
  }
  static Vec load(const Fp16* from) { return {_mm512_cvtph_ps(load16(from))}; }
  void store(float* to) const { _mm512_storeu_ps(to, x); }
  /// Does not use the AVX-512 BF16 conversion, which flushes subnormal numbers to zero.
  void store(Bf16* to) const {
    const __m512i b = _mm512_castps_si512(x);
    const __mmask16 odd = _mm512_test_epi32_mask(b, _mm512_set1_epi32(0x10000));
    const __mmask16 number = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
    const __m512i half =
        _mm512_mask_mov_epi32(_mm512_set1_epi32(0x7fff), odd, _mm512_set1_epi32(0x8000));
    const __m512i rounded = _mm512_mask_add_epi32(_mm512_set1_epi32(0x7fc00000), number, b, half);
    store16(to, _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper_words(), rounded)));
  }
  void store(Fp16* to) const {
    store16(to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.x, b.x, c.x)}; }
  /// Avoids the divider, which is busy with square roots. Two Newton steps yield the correctly
  /// rounded reciprocal. The first step rounds up, because otherwise the reciprocal of the largest
  /// number below a power of two would be too small. For zero and infinity, the steps produce NaN,
  /// so the whole vector is divided instead.
  static Vec reciprocal(Vec a) {
    const __m512 one = _mm512_set1_ps(1.0F);
    __m512 y = _mm512_rcp14_ps(a.x);
    y = _mm512_fmadd_round_ps(y, _mm512_fnmadd_ps(a.x, y, one), y,
                              _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    y = _mm512_fmadd_ps(y, _mm512_fnmadd_ps(a.x, y, one), y);
    if (__builtin_expect(_mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q) != 0, 0))
      return {_mm512_div_ps(one, a.x)};
    return {y};
  }
  static Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.x)}; }
  static Vec sign(Vec a) {
    const __mmask16 some = _mm512_cmp_ps_mask(a.x, _mm512_setzero_ps(), _CMP_NEQ_OQ);
    const __m512 one =
        _mm512_or_ps(_mm512_and_ps(a.x, _mm512_set1_ps(-0.0F)), _mm512_set1_ps(1.0F));
    return {_mm512_mask_mov_ps(a.x, some, one)};
  }
  static Vec finite_or_zero(Vec a) {
    const __mmask16 finite =
        _mm512_cmp_ps_mask(_mm512_abs_ps(a.x), _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ);
    return {_mm512_maskz_mov_ps(finite, a.x)};
  }

 private:
  static __m512i half_of_word() {
    return _mm512_set_epi16(15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8, 7, 7, 6, 6,
                            5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  }
  static __m512i upper_words() {
    return _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 31, 29, 27, 25, 23, 21,
                            19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  }
  static __m256i load16(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static void store16(void* to, __m256i bits) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), bits);
  }
};

inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.x, b.x)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.x, b.x)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.x, b.x)}; }

}  // namespace
ANYACCEL_ISA_END
#endif
