// A vector of eight floats. vec_scalar.h documents the members. Include vec.h, which has the
// include guard.
#if defined(__x86_64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA avx2  // default for tools that parse only this file
#endif

#include "kernels/simd/element.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

using Real = float;

struct Vec {
  static constexpr int width = 8;
  __m256 x;

  static Vec of(float value) { return {_mm256_set1_ps(value)}; }
  static Vec load(const float* from) { return {_mm256_loadu_ps(from)}; }
  static Vec load(const Bf16* from) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(from)), 16))};
  }
  static Vec load(const Fp16* from) { return {_mm256_cvtph_ps(load16(from))}; }
  void store(float* to) const { _mm256_storeu_ps(to, x); }
  void store(Bf16* to) const {
    const __m256i b = _mm256_castps_si256(x);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0x7fff)), last), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x88);
    store16(to, _mm256_castsi256_si128(packed));
  }
  void store(Fp16* to) const {
    store16(to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.x, b.x, c.x)}; }
  static Vec reciprocal(Vec a) { return {_mm256_div_ps(_mm256_set1_ps(1.0F), a.x)}; }
  static Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.x)}; }
  static Vec sign(Vec a) {
    const __m256 zero = _mm256_setzero_ps();
    const __m256 one =
        _mm256_or_ps(_mm256_and_ps(a.x, _mm256_set1_ps(-0.0F)), _mm256_set1_ps(1.0F));
    return {_mm256_blendv_ps(a.x, one, _mm256_cmp_ps(a.x, zero, _CMP_NEQ_OQ))};
  }
  static Vec finite_or_zero(Vec a) {
    const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.x);
    return {_mm256_and_ps(a.x, _mm256_cmp_ps(size, _mm256_set1_ps(__builtin_inff()), _CMP_LT_OQ))};
  }

 private:
  static __m128i load16(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
  static void store16(void* to, __m128i bits) { _mm_storeu_si128(static_cast<__m128i*>(to), bits); }
};

inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.x, b.x)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.x, b.x)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.x, b.x)}; }

}  // namespace
ANYACCEL_ISA_END
#endif
