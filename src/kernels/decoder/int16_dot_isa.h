// Exact products of a row's 16-bit integers with 8-bit or 4-bit weights. `Words` holds Vec::width
// 32-bit sums.
#if defined(ANYACCEL_DECODER_INT16_DOT_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_INT16_DOT_ISA_H)
#undef ANYACCEL_DECODER_INT16_DOT_ISA_H
#else
#define ANYACCEL_DECODER_INT16_DOT_ISA_H
#endif

#include "kernels/decoder/matrix.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr std::int64_t word_block = 128;  // number of inputs in a row that share a scale
constexpr float max_int16 = 32767;

#if ANYACCEL_WIDTH == 16
struct Words {
  __m512i x;
  static Words load(const std::int32_t* from) { return {_mm512_loadu_si512(from)}; }
  void store(std::int32_t* to) const { _mm512_storeu_si512(to, x); }
  static Words zero() { return {_mm512_setzero_si512()}; }
  Vec floats() const { return {_mm512_cvtepi32_ps(x)}; }
  /// Adds 32 products.
  void add8(const std::int8_t* w, const std::int16_t* words) {
    const __m512i wide =
        _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
    x = _mm512_add_epi32(x, _mm512_madd_epi16(wide, _mm512_loadu_si512(words)));
  }
  Words times_minus8() const {
    return {_mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(x, 3))};
  }
  Words times(std::int32_t low, std::int32_t high) const {
    return {_mm512_mullo_epi32(
        x, _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1))};
  }
};
constexpr std::int64_t step4 = 128;  // number of inputs per int4 step: two blocks
/// Adds the products of one step. The row's words are in the order that place4() defines.
inline Words add4(Words sum, const std::uint8_t* w, const std::int16_t* words) {
  const __m512i low = _mm512_set1_epi16(15);
  const __m512i all = _mm512_loadu_si512(w);
  const auto plane = [&](__m512i nibbles, int j) __attribute__((always_inline)) {
    return _mm512_madd_epi16(nibbles, _mm512_loadu_si512(words + 32 * j));
  };
  const __m512i a = plane(_mm512_and_si512(all, low), 0);
  const __m512i b = plane(_mm512_and_si512(_mm512_srli_epi16(all, 4), low), 1);
  const __m512i c = plane(_mm512_and_si512(_mm512_srli_epi16(all, 8), low), 2);
  const __m512i d = plane(_mm512_srli_epi16(all, 12), 3);
  return {
      _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(sum.x, a), b), _mm512_add_epi32(c, d))};
}
/// Returns the position of word i of a step. For each nibble, sixteen words of the first block are
/// followed by sixteen of the second.
inline std::int64_t place4(std::int64_t i) { return i % 64 / 16 * 32 + i / 64 * 16 + i % 16; }
/// Returns a vector with `a` in the lanes of the first block's sums and `b` in those of the second
/// block's.
inline Vec halves(float a, float b) {
  return {_mm512_insertf32x8(_mm512_set1_ps(a), _mm256_set1_ps(b), 1)};
}
#elif ANYACCEL_WIDTH == 8
struct Words {
  __m256i x;
  static Words load(const std::int32_t* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
  }
  void store(std::int32_t* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
  static Words zero() { return {_mm256_setzero_si256()}; }
  Vec floats() const { return {_mm256_cvtepi32_ps(x)}; }
  /// Adds 32 products.
  void add8(const std::int8_t* w, const std::int16_t* words) {
    for (int i = 0; i < 32; i += 16) {
      const __m256i wide =
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + i)));
      x = _mm256_add_epi32(
          x,
          _mm256_madd_epi16(wide, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i))));
    }
  }
  Words times_minus8() const {
    return {_mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(x, 3))};
  }
  Words times(std::int32_t low, std::int32_t /*high*/) const {
    return {_mm256_mullo_epi32(x, _mm256_set1_epi32(low))};
  }
};
constexpr std::int64_t step4 = 64;
inline Words add4(Words sum, const std::uint8_t* w, const std::int16_t* words) {
  const __m256i low = _mm256_set1_epi16(15);
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  const auto plane = [&](__m256i nibbles, int j) __attribute__((always_inline)) {
    return _mm256_madd_epi16(nibbles,
                             _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + 16 * j)));
  };
  const __m256i a = plane(_mm256_and_si256(all, low), 0);
  const __m256i b = plane(_mm256_and_si256(_mm256_srli_epi16(all, 4), low), 1);
  const __m256i c = plane(_mm256_and_si256(_mm256_srli_epi16(all, 8), low), 2);
  const __m256i d = plane(_mm256_srli_epi16(all, 12), 3);
  return {
      _mm256_add_epi32(_mm256_add_epi32(_mm256_add_epi32(sum.x, a), b), _mm256_add_epi32(c, d))};
}
inline std::int64_t place4(std::int64_t i) { return i; }
inline Vec halves(float a, float /*b*/) { return Vec::of(a); }
#elif ANYACCEL_WIDTH == 4
struct Words {
  int32x4_t x;
  static Words load(const std::int32_t* from) { return {vld1q_s32(from)}; }
  void store(std::int32_t* to) const { vst1q_s32(to, x); }
  static Words zero() { return {vdupq_n_s32(0)}; }
  Vec floats() const { return {vcvtq_f32_s32(x)}; }
  /// Adds 8 products.
  void add(int16x8_t w, const std::int16_t* words) {
    const int16x8_t all = vld1q_s16(words);
    x = vmlal_high_s16(vmlal_s16(x, vget_low_s16(w), vget_low_s16(all)), w, all);
  }
  /// Adds 32 products.
  void add8(const std::int8_t* w, const std::int16_t* words) {
    for (int i = 0; i < 32; i += 16) {
      const int8x16_t both = vld1q_s8(w + i);
      add(vmovl_s8(vget_low_s8(both)), words + i);
      add(vmovl_high_s8(both), words + i + 8);
    }
  }
  Words times_minus8() const { return {vnegq_s32(vshlq_n_s32(x, 3))}; }
  Words times(std::int32_t low, std::int32_t /*high*/) const { return {vmulq_n_s32(x, low)}; }
};
constexpr std::int64_t step4 = 64;
inline Words add4(Words sum, const std::uint8_t* w, const std::int16_t* words) {
  for (int i = 0; i < 16; i += 8) {
    const uint16x8_t all = vreinterpretq_u16_u8(vld1q_u8(w + 2 * i)), low = vdupq_n_u16(15);
    const auto plane = [&](uint16x8_t nibbles, int j) __attribute__((always_inline)) {
      sum.add(vreinterpretq_s16_u16(nibbles), words + 16 * j + i);
    };
    plane(vandq_u16(all, low), 0);
    plane(vandq_u16(vshrq_n_u16(all, 4), low), 1);
    plane(vandq_u16(vshrq_n_u16(all, 8), low), 2);
    plane(vshrq_n_u16(all, 12), 3);
  }
  return sum;
}
inline std::int64_t place4(std::int64_t i) { return i; }
inline Vec halves(float a, float /*b*/) { return Vec::of(a); }
#else
struct Words {
  std::int32_t x[Vec::width];
  static Words load(const std::int32_t* from) {
    Words out;
    __builtin_memcpy(out.x, from, sizeof out.x);
    return out;
  }
  void store(std::int32_t* to) const { __builtin_memcpy(to, x, sizeof x); }
  static Words zero() { return {}; }
  Vec floats() const {
    float values[Vec::width];
    for (int i = 0; i < Vec::width; ++i) values[i] = static_cast<float>(x[i]);
    return Vec::load(values);
  }
  void add8(const std::int8_t* w, const std::int16_t* words) {
    for (int i = 0; i < 32; ++i) x[i % Vec::width] += w[i] * words[i];
  }
  Words times_minus8() const { return times(-8, -8); }
  Words times(std::int32_t low, std::int32_t /*high*/) const {
    Words out = *this;
    for (int i = 0; i < Vec::width; ++i) out.x[i] *= low;
    return out;
  }
};
constexpr std::int64_t step4 = 64;
inline Words add4(Words sum, const std::uint8_t* w, const std::int16_t* words) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 4; ++j)
      sum.x[i % Vec::width] += ((w[2 * i + j / 2] >> (j % 2 * 4)) & 15) * words[16 * j + i];
  return sum;
}
inline std::int64_t place4(std::int64_t i) { return i; }
inline Vec halves(float a, float /*b*/) { return Vec::of(a); }
#endif

template <int block>
inline Words start8(const std::int32_t* /*sums*/, std::int64_t /*i*/) {
  return Words::zero();
}
/// The row's packed words for `block` inputs, starting at input i. They stay in memory, because
/// AVX2 does not have enough registers.
template <int block>
struct Step8 {
  const std::int16_t* words;
  Step8(const std::int16_t* row, std::int64_t i) : words(row + i) {}
};
/// Adds the products of one step.
template <int block>
inline __attribute__((always_inline)) Words add8(Words sum, const std::int8_t* w,
                                                 const Step8<block>& x) {
  for (int k = 0; k < block; k += 32) sum.add8(w + k, x.words + k);
  return sum;
}

/// Returns the largest magnitude in a word_block. Magnitudes are compared as integers, which have
/// the same order as the floats. Their maximum does not depend on the order of evaluation.
inline float abs_max(const float* from) {
  std::int32_t lanes[16] = {};
  for (int i = 0; i < word_block; i += 16)
    for (int lane = 0; lane < 16; ++lane) {
      std::int32_t bits;
      __builtin_memcpy(&bits, from + i + lane, 4);
      bits &= 0x7fffffff;
      lanes[lane] = lanes[lane] < bits ? bits : lanes[lane];
    }
  std::int32_t most = 0;
  for (const std::int32_t lane : lanes) most = most < lane ? lane : most;
  float out;
  __builtin_memcpy(&out, &most, 4);
  return out;
}
inline void rounded_words(const float* from, float factor, std::int16_t* to) {
  for (int i = 0; i < word_block; ++i)
    to[i] = static_cast<std::int16_t>(__builtin_rintf(from[i] * factor));
}

/// Stores the words of a word_block in the order in which products read them, and for int4 the sums
/// of each step.
inline void place_words(Format /*format*/, bool planes, const std::int16_t* here,
                        std::int64_t begin, std::int16_t* words, std::int32_t* sums) {
  if (!planes) {
    __builtin_memcpy(words + begin, here, word_block * 2);
    return;
  }
  for (std::int64_t i = 0; i < word_block; ++i)
    words[begin + i / step4 * step4 + place4(i % step4)] = here[i];
  for (std::int64_t i = begin; i < begin + word_block; i += step4) {
    std::int32_t lanes[Vec::width] = {};
    for (std::int64_t k = 0; k < step4; ++k) {
      // Lane to which the products of this word are added.
      const std::int64_t lane = ANYACCEL_WIDTH >= 8 ? k / 2 % Vec::width : k % 16 % Vec::width;
      lanes[lane] += words[i + k];
    }
    __builtin_memcpy(sums + i / step4 * Vec::width, lanes, sizeof lanes);
  }
}

}  // namespace
ANYACCEL_ISA_END
#endif
