// AVX-512 VNNI versions of the definitions in int16_dot_isa.h. The sums are exact in both files,
// and therefore equal. A VNNI instruction multiplies 64 unsigned bytes by 64 signed bytes. A row's
// 16-bit integers are therefore stored as signed upper bytes and unsigned lower bytes, which are
// multiplied separately.
#pragma once

#if defined(__x86_64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA avx512_vnni  // default for tools that parse only this file
#endif

#include "kernels/decoder/matrix.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr std::int64_t word_block = 128;
constexpr float max_int16 = 32767;

struct Words {
  __m512i x;
  static Words load(const std::int32_t* from) { return {_mm512_loadu_si512(from)}; }
  Vec floats() const { return {_mm512_cvtepi32_ps(x)}; }
  Words times_minus8() const {
    return {_mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(x, 3))};
  }
  Words times(std::int32_t low, std::int32_t high) const {
    return {_mm512_mullo_epi32(
        x, _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1))};
  }
};
inline __m256i half_at(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
inline __m512i both_halves(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
inline __m512i joined_bytes(__m512i upper, __m512i lower) {
  return _mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower);
}

constexpr std::int64_t step4 = 128;
/// Adds the products of one step. The lower nibbles of a step's bytes are the inputs 0, 32, 1, 33,
/// ..., 15, 47 of the first block, followed by those of the second block. The upper nibbles are the
/// inputs 16, 48, ... of both blocks. A row stores the lower and upper bytes for the lower nibbles
/// first, then those for the upper nibbles.
inline __attribute__((always_inline)) Words add4(Words sum, const std::uint8_t* w,
                                                 const std::int16_t* words) {
  const __m512i nibble = _mm512_set1_epi8(15), all = _mm512_loadu_si512(w);
  const __m512i first = _mm512_and_si512(all, nibble),
                second = _mm512_and_si512(_mm512_srli_epi16(all, 4), nibble);
  __m512i lower = _mm512_dpbusd_epi32(sum.x, _mm512_load_si512(words), first);
  __m512i upper = _mm512_dpbusd_epi32(_mm512_setzero_si512(), first, _mm512_load_si512(words + 32));
  lower = _mm512_dpbusd_epi32(lower, _mm512_load_si512(words + 64), second);
  upper = _mm512_dpbusd_epi32(upper, second, _mm512_load_si512(words + 96));
  return {joined_bytes(upper, lower)};
}
inline Vec halves(float a, float b) {
  return {_mm512_insertf32x8(_mm512_set1_ps(a), _mm256_set1_ps(b), 1)};
}

/// Returns the initial sum of a step. Products with upper bytes use q + 128, which is unsigned, so
/// the sum starts at -128 times the sum of the upper bytes. A row stores the lower bytes of 64
/// inputs, followed by their upper bytes.
template <int block>
inline __attribute__((always_inline)) Words start8(const std::int32_t* sums, std::int64_t i) {
  const std::int32_t* const from = sums + (i >> 2);
  if (block == 32) return {_mm512_zextsi256_si512(half_at(from))};
  if (block == 64) return {_mm512_load_si512(from)};
  return {_mm512_add_epi32(_mm512_load_si512(from), _mm512_load_si512(from + 16))};
}
/// The row's bytes for `block` inputs, starting at input i. They are loaded once for all outputs of
/// a tile.
template <int block>
struct Step8 {
  static constexpr int count = block == 128 ? 2 : 1;
  __m512i lower[count], upper[count];
  inline __attribute__((always_inline)) Step8(const std::int16_t* words, std::int64_t i) {
    const std::int64_t into = block == 32 ? i % 64 : 0;
    const char* const row = reinterpret_cast<const char*>(words + i - into) + into;
    if (block == 32) {
      lower[0] = _mm512_zextsi256_si512(half_at(row));
      upper[0] = _mm512_zextsi256_si512(half_at(row + 64));
      return;
    }
    for (int k = 0; k < count; ++k) {
      lower[k] = _mm512_load_si512(row + 128 * k);
      upper[k] = _mm512_load_si512(row + 128 * k + 64);
    }
  }
};
template <int block>
inline __attribute__((always_inline)) Words add8(Words sum, const std::int8_t* w,
                                                 const Step8<block>& x) {
  if (block == 32) {
    const __m256i q = half_at(w), unsigned_q = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
    const __m256i lower =
        _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm512_castsi512_si256(x.lower[0]), q);
    const __m256i upper = _mm256_dpbusd_epi32(_mm512_castsi512_si256(sum.x), unsigned_q,
                                              _mm512_castsi512_si256(x.upper[0]));
    return {_mm512_zextsi256_si512(_mm256_add_epi32(_mm256_slli_epi32(upper, 8), lower))};
  }
  __m512i lower = _mm512_setzero_si512(), upper = sum.x;
  for (int k = 0; k < x.count; ++k) {
    const __m512i q = _mm512_loadu_si512(w + 64 * k),
                  unsigned_q = _mm512_xor_si512(q, _mm512_set1_epi8(-128));
    lower = _mm512_dpbusd_epi32(lower, x.lower[k], q);
    upper = _mm512_dpbusd_epi32(upper, unsigned_q, x.upper[k]);
  }
  return {joined_bytes(upper, lower)};
}

inline float abs_max(const float* from) {
  __m512i most = _mm512_setzero_si512();
  for (int i = 0; i < word_block; i += 16)
    most = _mm512_max_epi32(
        most, _mm512_and_si512(_mm512_loadu_si512(from + i), _mm512_set1_epi32(0x7fffffff)));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(most))));
}
inline void rounded_words(const float* from, float factor, std::int16_t* to) {
  for (int i = 0; i < word_block; i += 16) {
    const __m512i whole =
        _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from + i), _mm512_set1_ps(factor)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_cvtepi32_epi16(whole));
  }
}

/// Each returns the sums of groups of four bytes.
inline __m512i sums_of_upper(__m512i bytes) {
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), bytes);
}
inline __m512i sums_of_lower(__m512i bytes) {
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), bytes, _mm512_set1_epi8(1));
}

inline void place_words(Format format, bool planes, const std::int16_t* here, std::int64_t begin,
                        std::int16_t* words, std::int32_t* sums) {
  words += begin;
  if (format == Format::int8) {
    for (int i = 0; i < word_block; i += 64) {
      const __m512i a = _mm512_loadu_si512(here + i), b = _mm512_loadu_si512(here + i + 32);
      const __m512i lower = both_halves(_mm512_cvtepi16_epi8(a), _mm512_cvtepi16_epi8(b));
      const __m512i upper = both_halves(_mm512_cvtepi16_epi8(_mm512_srai_epi16(a, 8)),
                                        _mm512_cvtepi16_epi8(_mm512_srai_epi16(b, 8)));
      _mm512_store_si512(words + i, lower);
      _mm512_store_si512(words + i + 32, upper);
      const __m512i start =
          _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums_of_upper(upper), 7));
      _mm512_store_si512(sums + (begin + i) / 4, start);
    }
    return;
  }
  if (!planes) {
    __builtin_memcpy(words, here, word_block * 2);
    return;
  }
  __m512i all = _mm512_setzero_si512();
  for (int plane = 0; plane < 2; ++plane) {
    const std::int16_t* const from = here + 16 * plane;
    const __m512i even = both_halves(half_at(from), half_at(from + 64));
    const __m512i odd = both_halves(half_at(from + 32), half_at(from + 96));
    const __m512i low = _mm512_set1_epi16(255);
    const __m512i lower = _mm512_or_si512(_mm512_and_si512(even, low), _mm512_slli_epi16(odd, 8));
    const __m512i upper =
        _mm512_or_si512(_mm512_srli_epi16(even, 8), _mm512_andnot_si512(low, odd));
    _mm512_store_si512(words + 64 * plane, lower);
    _mm512_store_si512(words + 64 * plane + 32, upper);
    all = _mm512_add_epi32(all, joined_bytes(sums_of_upper(upper), sums_of_lower(lower)));
  }
  _mm512_store_si512(sums + begin / step4 * Vec::width, all);
}

}  // namespace
ANYACCEL_ISA_END
#endif
