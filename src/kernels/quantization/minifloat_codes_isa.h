// Conversion of 64 elements at a time with AVX-512. Codes are processed as 16-bit words, so half as
// many vectors are needed as with 32-bit lanes. Results are bitwise equal to those of
// minifloat_isa.h.
#pragma once

#if defined(__x86_64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA avx512  // default for tools that parse only this file
#endif

#include "kernels/quantization/minifloat_lanes_isa.h"
#include "kernels/quantization/minifloat_packing_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr __mmask32 odd_words = 0xaaaaaaaaU;
inline __m512i load64(const void* from) { return _mm512_loadu_si512(from); }
inline __m512i words_of(int value) { return _mm512_set1_epi16(static_cast<short>(value)); }

/// Returns the upper or the lower words of the lanes of `first`, followed by those of `second`.
inline __m512i joined_words(__m512i first, __m512i second, bool upper) {
  const auto index = [&](int word) { return static_cast<short>(2 * word + (upper ? 1 : 0)); };
  std::int16_t indexes[32];
  for (int i = 0; i < 32; ++i) indexes[i] = index(i);
  return _mm512_permutex2var_epi16(first, load64(indexes), second);
}

// ---- Encoding

/// Returns the largest magnitude, as the bits of a float.
inline std::int32_t abs_max(const Bf16* from, std::int64_t count) {
  __m512i most[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64)
    for (int k = 0; k < 2; ++k)
      most[k] =
          _mm512_max_epu16(most[k], _mm512_and_si512(load64(from + i + 32 * k), words_of(0x7fff)));
  for (; i < count; i += 32) {
    const __mmask32 some = count - i < 32 ? (1U << (count - i)) - 1 : 0xffffffffU;
    most[0] = _mm512_max_epu16(
        most[0], _mm512_and_si512(_mm512_maskz_loadu_epi16(some, from + i), words_of(0x7fff)));
  }
  const __m512i all = _mm512_max_epu16(most[0], most[1]);
  return _mm512_reduce_max_epu32(_mm512_max_epu32(
      _mm512_slli_epi32(all, 16), _mm512_and_si512(all, _mm512_set1_epi32(-65536))));
}

/// 32 scaled magnitudes, as 16-bit words. `small` is the code for magnitudes below the smallest
/// normal number: adding small_shift_of() leaves it in the lowest bits of the sum. `upper` has the
/// bits from which all other magnitudes are rounded.
struct Scaled {
  __m512i upper, small,
      sign;  ///< the highest bit of each word is the sign; the other bits are arbitrary
};
/// Prepares the bits of a float for truncation to the upper word. In formats with seven mantissa
/// bits, the code needs all bits that this word keeps, so the value is rounded here. In formats
/// with fewer mantissa bits, it is rounded later.
template <int format>
inline __attribute__((always_inline)) __m512i before_words(__m512 y) {
  const __m512i bits = _mm512_castps_si512(y);
  return lost_bits_of(float_formats[format]) > 16
             ? bits
             : _mm512_add_epi32(bits, _mm512_set1_epi32(0x8000));
}
template <int format>
inline __attribute__((always_inline)) Scaled scaled(const Bf16* from, __m512 factor) {
  const __m512 shift = _mm512_set1_ps(small_shift_of(float_formats[format]));
  const __m512i x = load64(from), size = _mm512_and_si512(x, words_of(0x7fff));
  const __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(size, 16)) * factor;
  const __m512 odd =
      _mm512_castsi512_ps(_mm512_and_si512(size, _mm512_set1_epi32(-65536))) * factor;
  const __m512i small =
      _mm512_mask_blend_epi16(odd_words, _mm512_castps_si512(even + shift),
                              _mm512_slli_epi32(_mm512_castps_si512(odd + shift), 16));
  const __m512i upper = _mm512_mask_blend_epi16(
      odd_words, _mm512_srli_epi32(before_words<format>(even), 16), before_words<format>(odd));
  return {upper, small, x};
}
template <int format, typename T>
inline __attribute__((always_inline)) Scaled scaled(const T* from, __m512 factor) {
  const __m512 shift = _mm512_set1_ps(small_shift_of(float_formats[format]));
  const __m512 first = Vec::load(from).x * factor, second = Vec::load(from + 16).x * factor;
  const __m512i small = joined_words(_mm512_castps_si512(_mm512_abs_ps(first) + shift),
                                     _mm512_castps_si512(_mm512_abs_ps(second) + shift), false);
  const __m512i upper =
      joined_words(before_words<format>(first), before_words<format>(second), true);
  return {_mm512_and_si512(upper, words_of(0x7fff)), small, upper};
}

template <int format, typename T>
inline __attribute__((always_inline)) __m512i word_codes(const T* from, __m512 factor) {
  constexpr FloatFormat f = float_formats[format];
  constexpr int lost = lost_bits_of(f) - 16;
  const Scaled y = scaled<format>(from, factor);
  // Wraps around for magnitudes that use `small`; these lanes are ignored.
  const __m512i based =
      _mm512_sub_epi16(y.upper, words_of((rebias_of(f) << lost) - (1 << lost >> 1)));
  const __mmask32 normal = _mm512_cmpge_epu16_mask(y.upper, words_of(min_normal_of(f) >> 16));
  const __m512i code = _mm512_mask_srli_epi16(y.small, normal, based, lost);
  constexpr unsigned sign_place = 16 - f.bits;
  const __m512i sign = _mm512_srli_epi16(y.sign, sign_place);
  return _mm512_ternarylogic_epi32(code, sign, words_of(1 << (f.bits - 1)),
                                   0xf8);  // code | (sign & bit)
}

/// Joins the lower three bytes of each 32-bit lane, permutes the resulting words with `order` and
/// stores the first 24 of them.
inline void store_threes(std::uint8_t* to, __m512i lanes, __m512i order) {
  const __m512i near =
      _mm512_shuffle_epi8(lanes, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10,
                                                                      12, 13, 14, -1, -1, -1, -1)));
  const __m512i bytes = _mm512_permutexvar_epi16(order, near);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(bytes));
  store16(to + 32, _mm512_extracti32x4_epi32(bytes, 2));
}
/// Returns the permutation for store_threes() that joins four quarters with six words each. With
/// `halves_apart`, the first halves of all quarters are followed by the second halves. Otherwise,
/// the quarters follow each other.
inline __m512i order_of_threes(bool halves_apart) {
  std::int16_t order[32] = {};
  for (int i = 0; i < 24; ++i)
    order[i] = static_cast<std::int16_t>(halves_apart ? i % 12 / 3 * 8 + i / 12 * 3 + i % 3
                                                      : i / 6 * 8 + i % 6);
  return load64(order);
}

template <int bits>
inline __attribute__((always_inline)) void store_codes(std::uint8_t* to, __m512i first,
                                                       __m512i second) {
  const __m512i twelves = _mm512_set1_epi32(0x10000001);
  if (bits == 12) {
    store_threes(to, _mm512_madd_epi16(first, twelves), order_of_threes(false));
    store_threes(to + 48, _mm512_madd_epi16(second, twelves), order_of_threes(false));
    return;
  }
  // Each quarter has eight codes of `first`, followed by eight codes of `second`.
  const __m512i bytes = _mm512_packus_epi16(first, second);
  if (bits == 6) {
    const __m512i pairs = _mm512_maddubs_epi16(bytes, words_of(0x4001));
    return store_threes(to, _mm512_madd_epi16(pairs, twelves), order_of_threes(true));
  }
  const __m512i in_order =
      _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), bytes);
  if (bits == 8) return _mm512_storeu_si512(to, in_order);
  const __m512i pairs = _mm512_maddubs_epi16(in_order, words_of(0x1001));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(pairs));
}

template <int format, typename T>
inline void encode_words(const T* from, float factor, std::uint8_t* to) {
  const __m512 by = _mm512_set1_ps(factor);
  store_codes<float_formats[format].bits>(to, word_codes<format>(from, by),
                                          word_codes<format>(from + 32, by));
}

// ---- Decoding

/// Loads 32 packed codes into 16-bit words, at the upper or the lower end of each word. The other
/// bits are arbitrary.
template <int bits, bool upper>
inline __attribute__((always_inline)) __m512i load_codes(const std::uint8_t* piece_from, int half) {
  if constexpr (bits == 8) {
    const __m256i bytes =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(piece_from + 32 * half));
    return upper ? _mm512_slli_epi16(_mm512_cvtepu8_epi16(bytes), 8) : _mm512_cvtepu8_epi16(bytes);
  } else if constexpr (bits == 4) {
    const __m512i bytes = _mm512_cvtepu8_epi32(load16(piece_from + 16 * half));
    return upper ? _mm512_or_si512(_mm512_slli_epi32(bytes, 12), _mm512_slli_epi32(bytes, 24))
                 : _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
  } else {
    // Moves eight codes to each quarter, and then the two bytes that contain a code to each word.
    constexpr bool six = bits == 6;
    const __m512i bytes = six ? _mm512_maskz_loadu_epi8((1ULL << 48) - 1, piece_from)
                              : load64(piece_from + 32 * half);
    const int first = six ? 6 * half : 4 * half;
    const __m512i quarters = _mm512_permutexvar_epi32(
        _mm512_add_epi32(six ? _mm512_setr_epi32(0, 1, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 4, 5, 0, 0)
                             : _mm512_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, 0),
                         _mm512_set1_epi32(first)),
        bytes);
    const __m128i sixes = _mm_setr_epi8(0, 1, 0, 1, 1, 2, 2, 3, 3, 4, 3, 4, 4, 5, 5, 6);
    const __m128i later = _mm_add_epi8(sixes, _mm_set1_epi8(2));
    const __m128i twelves = _mm_setr_epi8(0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11);
    const __m512i places =
        six ? _mm512_inserti32x4(_mm512_inserti32x4(_mm512_broadcast_i32x4(sixes), later, 1), later,
                                 3)
            : _mm512_broadcast_i32x4(twelves);
    const __m512i words = _mm512_shuffle_epi8(quarters, places);
    constexpr std::int64_t down = six ? 0x0002000400060000 : 0x0004000000040000;
    constexpr std::int64_t up = (six ? 0x000a000a000a000a : 0x0004000400040004) - down;
    return upper ? _mm512_sllv_epi16(words, _mm512_set1_epi64(up))
                 : _mm512_srlv_epi16(words, _mm512_set1_epi64(down));
  }
}

template <bool past>
inline void store64(void* to, __m512i bytes) {
  past ? _mm512_stream_si512(static_cast<__m512i*>(to), bytes) : _mm512_storeu_si512(to, bytes);
}
template <bool past>
inline void store_numbers(float* to, __m512 first, __m512 second) {
  store64<past>(to, _mm512_castps_si512(first));
  store64<past>(to + 16, _mm512_castps_si512(second));
}
inline __m512i narrow(const Fp16*, __m512 first, __m512 second) {
  constexpr int nearest_even = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(first, nearest_even)),
                            _mm512_cvtps_ph(second, nearest_even), 1);
}
/// Rounds to bfloat16 in the upper words, with ties to even. NaN is unsupported.
inline __m512i rounded_up(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  return _mm512_add_epi32(
      bits, _mm512_mask_mov_epi32(_mm512_set1_epi32(0x7fff), odd, _mm512_set1_epi32(0x8000)));
}
inline __m512i narrow(const Bf16*, __m512 first, __m512 second) {
  return joined_words(rounded_up(first), rounded_up(second), true);
}
template <bool past, typename T>
inline void store_numbers(T* to, __m512 first, __m512 second) {
  store64<past>(to, narrow(to, first, second));
}

/// Whether WordDecoder supports a format. The format must have fewer exponent bits than fp16.
template <int format>
constexpr bool decodes_words = exponent_of(float_formats[format]) < 5;

/// Decodes the codes of a row with a given step size, which must be finite.
template <int format, typename T>
class WordDecoder {
  static constexpr FloatFormat f = float_formats[format];
  /// Whether a lookup table with the decoded values of all codes fits in two vectors.
  static constexpr bool has_table = f.bits <= 6 && sizeof(T) == 2;

 public:
  explicit WordDecoder(float step) : step_(_mm512_set1_ps(step)) {
    if constexpr (has_table) {
      const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      __m512 numbers[4];
      for (int i = 0; i < 4; ++i) {
        const __m512i codes = _mm512_and_si512(_mm512_add_epi32(lanes, _mm512_set1_epi32(16 * i)),
                                               _mm512_set1_epi32((1 << f.bits) - 1));
        numbers[i] = numbers_of<format>(as<Ints>(codes)).x * step_;
      }
      const T* const type = nullptr;
      table_[0] = narrow(type, numbers[0], numbers[1]);
      table_[1] = narrow(type, numbers[2], numbers[3]);
    }
  }

  /// Decodes one block of 64 codes. With `past`, stores bypass the caches, and `to` must be aligned
  /// to 64 bytes.
  template <bool past>
  inline __attribute__((always_inline)) void piece(const std::uint8_t* from, T* to) const {
    for (int half = 0; half < 2; ++half) {
      if constexpr (has_table) {
        const __m512i codes = load_codes<f.bits, false>(from, half);
        store64<past>(to + 32 * half, f.bits == 6
                                          ? _mm512_permutex2var_epi16(table_[0], codes, table_[1])
                                          : _mm512_permutexvar_epi16(codes, table_[0]));
      } else {
        // Move exponent and mantissa to their positions in an fp16 value. The result is too small
        // by a power of 2; this also holds for subnormal numbers.
        constexpr int behind = 5 - exponent_of(f);
        const __m512i codes = load_codes<f.bits, true>(from, half);
        const __m512i halves =
            _mm512_and_si512(_mm512_srai_epi16(codes, behind),
                             words_of(0x8000 | size_mask_of(f) << (10 - f.mantissa)));
        const __m512 unit = _mm512_set1_ps(power_of_2(15 - bias_of(f)));
        store_numbers<past>(to + 32 * half,
                            _mm512_cvtph_ps(_mm512_castsi512_si256(halves)) * unit * step_,
                            _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)) * unit * step_);
      }
    }
  }

 private:
  __m512 step_;
  __m512i table_[2];
};

}  // namespace
ANYACCEL_ISA_END
#endif
