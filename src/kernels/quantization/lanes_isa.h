// Integer vectors with as many lanes as `Vec`, and functions that compute the range of an array.
//
// The integers use the compiler's vector extension (vector_size), which GCC and Clang support on
// all processors. If `Vec` has one element, they are plain integers.
#if defined(ANYACCEL_QUANTIZATION_LANES_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_QUANTIZATION_LANES_ISA_H)
#undef ANYACCEL_QUANTIZATION_LANES_ISA_H
#else
#define ANYACCEL_QUANTIZATION_LANES_ISA_H
#endif

#include "kernels/quantization/range.h"
#include "kernels/simd/element.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

template <typename To, typename From>
inline To as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  __builtin_memcpy(&out, &from, sizeof out);
  return out;
}

#if ANYACCEL_WIDTH == 1
using Ints = std::int32_t;
using Words = std::uint32_t;
using Floats = float;
inline Ints load_bytes(const std::int8_t* from) { return *from; }
inline Ints load_bytes(const std::uint8_t* from) { return *from; }
inline void store_bytes(std::int8_t* to, Ints lanes) { *to = static_cast<std::int8_t>(lanes); }
inline void store_shorts(std::int16_t* to, Ints lanes) { __builtin_memcpy(to, &lanes, sizeof *to); }
inline Ints load_shorts(const std::int16_t* from) {
  std::uint16_t out;
  __builtin_memcpy(&out, from, sizeof out);
  return out;
}
inline Floats to_floats(Ints lanes) { return static_cast<float>(lanes); }
/// Truncates the values.
inline Ints to_ints(Vec lanes) { return static_cast<Ints>(lanes.x); }
#else
typedef std::int32_t Ints __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef std::uint32_t Words __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef float Floats __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef std::int8_t Bytes __attribute__((vector_size(ANYACCEL_WIDTH)));
typedef std::uint8_t BytesWithoutSign __attribute__((vector_size(ANYACCEL_WIDTH)));
typedef std::int16_t Shorts __attribute__((vector_size(2 * ANYACCEL_WIDTH)));
typedef std::uint16_t ShortsWithoutSign __attribute__((vector_size(2 * ANYACCEL_WIDTH)));
template <typename Lanes, typename From>
inline Lanes lanes_at(const From* from) {
  Lanes out;
  __builtin_memcpy(&out, from, sizeof out);
  return out;
}
#if ANYACCEL_WIDTH == 16
// Use intrinsics, because GCC splits some conversions into several steps: those to lanes of more
// than twice the width, and with AVX2 those to bytes.
inline Ints load_bytes(const std::int8_t* from) {
  return as<Ints>(_mm512_cvtepi8_epi32(lanes_at<__m128i>(from)));
}
inline Ints load_bytes(const std::uint8_t* from) {
  return as<Ints>(_mm512_cvtepu8_epi32(lanes_at<__m128i>(from)));
}
#elif ANYACCEL_WIDTH == 8
inline Ints load_bytes(const std::int8_t* from) {
  return as<Ints>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
inline Ints load_bytes(const std::uint8_t* from) {
  return as<Ints>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#else
inline Ints load_bytes(const std::int8_t* from) {
  return __builtin_convertvector(lanes_at<Bytes>(from), Ints);
}
inline Ints load_bytes(const std::uint8_t* from) {
  return __builtin_convertvector(lanes_at<BytesWithoutSign>(from), Ints);
}
#endif
#if ANYACCEL_WIDTH == 16
inline __m128i to_bytes(Ints lanes) { return _mm512_cvtepi32_epi8(as<__m512i>(lanes)); }
inline void store_bytes(std::int8_t* to, Ints lanes) {
  auto bytes = to_bytes(lanes);
  asm("" : "+x"(bytes));  // separate the conversion from the store; together they are slower
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
#elif ANYACCEL_WIDTH == 8
inline __m128i to_bytes(Ints lanes) {
  const __m256i low = _mm256_shuffle_epi8(as<__m256i>(lanes), _mm256_set1_epi32(0x0c080400));
  return _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}
inline void store_bytes(std::int8_t* to, Ints lanes) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), to_bytes(lanes));
}
#else
inline void store_bytes(std::int8_t* to, Ints lanes) {
  const Bytes bytes = __builtin_convertvector(lanes, Bytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}
#endif

// Functions for bytes that hold two codes. The first code is in the upper or in the lower four
// bits. A pair of lanes is processed as one 64-bit lane, whose lower half is the first code.
typedef std::uint64_t Pairs __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef std::int64_t SignedPairs __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef std::int8_t PairBytes __attribute__((vector_size(ANYACCEL_WIDTH / 2)));

template <bool first_above>
inline void store_nibbles(std::int8_t* to, Ints codes) {
#if ANYACCEL_WIDTH >= 8
  const __m128i nibbles = _mm_and_si128(to_bytes(codes), _mm_set1_epi8(15));
  const __m128i both = _mm_maddubs_epi16(nibbles, _mm_set1_epi16(first_above ? 0x0110 : 0x1001));
  const __m128i bytes = _mm_packus_epi16(both, both);
  __builtin_memcpy(to, &bytes, sizeof(PairBytes));
#else
  const auto pairs = as<Pairs>(codes);
  const Pairs first = pairs & 15, second = pairs >> 32 & 15;
  const PairBytes bytes =
      __builtin_convertvector(first_above ? first << 4 | second : second << 4 | first, PairBytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
#endif
}
/// Loads one byte into each pair of lanes, with sign extension.
inline Pairs load_pairs(const void* from) {
#if ANYACCEL_WIDTH == 16
  return as<Pairs>(_mm512_cvtepi8_epi64(_mm_loadl_epi64(static_cast<const __m128i*>(from))));
#elif ANYACCEL_WIDTH == 8
  return as<Pairs>(_mm256_cvtepi8_epi64(
      _mm_cvtsi32_si128(lanes_at<std::int32_t>(static_cast<const char*>(from)))));
#else
  return as<Pairs>(
      __builtin_convertvector(lanes_at<PairBytes>(static_cast<const char*>(from)), SignedPairs));
#endif
}
/// Loads codes from 0 to 15.
template <bool first_above>
inline Ints load_nibbles(const std::uint8_t* from) {
  const Pairs pairs = load_pairs(from), above = pairs >> 4 & 15, below = pairs & 15;
  return as<Ints>(first_above ? above | below << 32 : below | above << 32);
}
/// Loads codes from -8 to 7, with the first code in the upper four bits.
inline Ints load_nibbles(const std::int8_t* from) {
  const Pairs pairs = load_pairs(from);
  // Move each code to the upper end of its lane, then shift it down with sign extension.
  return as<Ints>((pairs << 24 & 0xffffffff) | pairs << 60) >> 28;
}

inline void store_shorts(std::int16_t* to, Ints lanes) {
  const Shorts shorts = __builtin_convertvector(lanes, Shorts);
  __builtin_memcpy(to, &shorts, sizeof shorts);
}
inline Ints load_shorts(const std::int16_t* from) {
  return __builtin_convertvector(lanes_at<ShortsWithoutSign>(from), Ints);
}
inline Floats to_floats(Ints lanes) { return __builtin_convertvector(lanes, Floats); }
inline Ints to_ints(Vec lanes) { return __builtin_convertvector(as<Floats>(lanes.x), Ints); }
#endif

inline Vec vec_of(Floats lanes) { return {as<decltype(Vec::x)>(lanes)}; }
inline Ints lane_bits(Vec lanes) { return as<Ints>(lanes.x); }
inline Ints all(std::int32_t value) { return Ints{} + value; }
// If the first float is NaN, these functions return the second one. With GCC, a comparison would
// not compile to a single instruction.
#if ANYACCEL_WIDTH == 16
constexpr __mmask16 every_lane = 0xffff;  // without a mask, GCC 12 warns about its own header
inline Ints lesser(Ints a, Ints b) {
  return as<Ints>(_mm512_maskz_min_epi32(every_lane, as<__m512i>(a), as<__m512i>(b)));
}
inline Ints greater(Ints a, Ints b) {
  return as<Ints>(_mm512_maskz_max_epi32(every_lane, as<__m512i>(a), as<__m512i>(b)));
}
inline Vec lesser(Vec a, Vec b) { return {_mm512_maskz_min_ps(every_lane, a.x, b.x)}; }
inline Vec greater(Vec a, Vec b) { return {_mm512_maskz_max_ps(every_lane, a.x, b.x)}; }
#elif ANYACCEL_WIDTH == 8
inline Ints lesser(Ints a, Ints b) {
  return as<Ints>(_mm256_min_epi32(as<__m256i>(a), as<__m256i>(b)));
}
inline Ints greater(Ints a, Ints b) {
  return as<Ints>(_mm256_max_epi32(as<__m256i>(a), as<__m256i>(b)));
}
inline Vec lesser(Vec a, Vec b) { return {_mm256_min_ps(a.x, b.x)}; }
inline Vec greater(Vec a, Vec b) { return {_mm256_max_ps(a.x, b.x)}; }
#else
inline Ints lesser(Ints a, Ints b) { return a < b ? a : b; }
inline Ints greater(Ints a, Ints b) { return a > b ? a : b; }
inline Vec lesser(Vec a, Vec b) { return {a.x < b.x ? a.x : b.x}; }
inline Vec greater(Vec a, Vec b) { return {a.x > b.x ? a.x : b.x}; }
#endif

/// Returns the nearest integers, with ties to even. Magnitudes must be below 2^22.
inline Ints nearest(Vec lanes) {
#if ANYACCEL_WIDTH == 16
  return as<Ints>(_mm512_cvtps_epi32(lanes.x));
#elif ANYACCEL_WIDTH == 8
  return as<Ints>(_mm256_cvtps_epi32(lanes.x));
#else
  constexpr float shift = 12582912.0F;  // 1.5 * 2^23: the lowest bits of the sum are the integer
  return lane_bits(lanes + Vec::of(shift)) - lane_bits(Vec::of(shift));
#endif
}

/// Calls function(vector, i, elements) for each vector of an array. The vector begins at element i.
/// The last vector is zero-padded.
template <typename T, typename Function>
inline __attribute__((always_inline)) void each_vector(const T* from, std::int64_t count,
                                                       const Function& function) {
  std::int64_t i = 0;
  for (; i + Vec::width <= count; i += Vec::width)
    function(Vec::load(from + i), i, std::int64_t{Vec::width});
  if (i == count) return;
  T rest[Vec::width];
  __builtin_memset(rest, 0, sizeof rest);
  __builtin_memcpy(rest, from + i, static_cast<std::size_t>(count - i) * sizeof(T));
  function(Vec::load(rest), i, count - i);
}

/// Returns the range of an array, as defined by GroupRange.
template <typename T, bool magnitudes>
GroupRange range_of(const T* from, std::int64_t count) {
  const GroupRange none = empty_range(magnitudes);
  Ints low[2] = {all(none.low), all(none.low)}, high[2] = {all(none.high), all(none.high)};
  const auto take = [&](Vec value, int which) __attribute__((always_inline)) {
    Ints keys = lane_bits(value);
    if (magnitudes) {
      keys &= sign_mask;
    } else {
      keys ^= (keys >> 31) & sign_mask;
      low[which] = lesser(low[which], keys);
    }
    high[which] = greater(high[which], keys);
  };
  std::int64_t i = 0;
  for (; i + 2 * Vec::width <= count; i += 2 * Vec::width) {
    take(Vec::load(from + i), 0);
    take(Vec::load(from + i + Vec::width), 1);
  }
  std::int32_t lows[Vec::width], highs[Vec::width];
  const Ints least = lesser(low[0], low[1]), greatest = greater(high[0], high[1]);
  __builtin_memcpy(lows, &least, sizeof lows);
  __builtin_memcpy(highs, &greatest, sizeof highs);
  GroupRange out = none;
  for (int lane = 0; lane < Vec::width; ++lane) {
    out.low = lows[lane] < out.low ? lows[lane] : out.low;
    out.high = highs[lane] > out.high ? highs[lane] : out.high;
  }
  for (; i < count; ++i) {
    T one[Vec::width];  // holds the value in all lanes
    for (T& each : one) each = from[i];
    std::int32_t keys[Vec::width];
    const Ints bits = lane_bits(Vec::load(one));
    __builtin_memcpy(keys, &bits, sizeof keys);
    const std::int32_t key =
        magnitudes ? keys[0] & sign_mask : keys[0] ^ ((keys[0] >> 31) & sign_mask);
    out.low = key < out.low ? key : out.low;
    out.high = key > out.high ? key : out.high;
  }
  return out;
}

}  // namespace
ANYACCEL_ISA_END
#endif
