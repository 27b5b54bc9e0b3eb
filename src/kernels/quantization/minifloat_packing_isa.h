// Packs minifloat codes into bytes without gaps, from the lowest bit upward, and unpacks them.
//
// The functions may read and write up to `beyond` bytes past the codes. This is safe, because
// those bytes hold the row's step size, which is written afterwards.
#if defined(ANYACCEL_QUANTIZATION_MINIFLOAT_PACKING_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_QUANTIZATION_MINIFLOAT_PACKING_ISA_H)
#undef ANYACCEL_QUANTIZATION_MINIFLOAT_PACKING_ISA_H
#else
#define ANYACCEL_QUANTIZATION_MINIFLOAT_PACKING_ISA_H
#endif

#include "kernels/quantization/lanes_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr int beyond = 4;

/// Number of elements packed at a time. Their codes fill whole bytes in every format, and the
/// elements fill whole vectors in every instruction set.
constexpr int piece = 64;

#if ANYACCEL_WIDTH >= 8

/// Drops the highest byte of each of the four lanes; the last four bytes become zero. with_fourth()
/// is the inverse.
inline __m128i without_fourth(__m128i lanes) {
  return _mm_shuffle_epi8(lanes,
                          _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
}
inline __m128i with_fourth(__m128i bytes) {
  return _mm_shuffle_epi8(bytes,
                          _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
}
inline __m128i load16(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline void store16(std::uint8_t* to, __m128i bytes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

inline void put_sixes(std::uint8_t* to, Ints codes) {
  const __m128i twelves = _mm_maddubs_epi16(to_bytes(codes), _mm_set1_epi16(0x4001));
  const __m128i bytes = without_fourth(_mm_madd_epi16(twelves, _mm_set1_epi32(0x10000001)));
#if ANYACCEL_WIDTH == 16
  store16(to, bytes);
#else
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
#endif
}
inline Ints get_sixes(const std::uint8_t* from) {
  typedef std::uint32_t Four __attribute__((vector_size(16)));
#if ANYACCEL_WIDTH == 16
  const auto packed = as<Four>(with_fourth(load16(from)));
#else
  const auto packed =
      as<Four>(with_fourth(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#endif
  const Four bytes = (packed & 0x3f) | (packed << 2 & 0x3f00) | (packed << 4 & 0x3f0000) |
                     (packed << 6 & 0x3f000000);
  std::uint8_t codes[16];
  __builtin_memcpy(codes, &bytes, sizeof codes);
  return load_bytes(codes);
}

inline void put_twelves(std::uint8_t* to, Ints codes) {
  const auto pairs = as<Pairs>(codes);
  const Pairs joined_pairs = pairs | pairs >> 20;
#if ANYACCEL_WIDTH == 16
  const __m256i lanes = _mm512_cvtepi64_epi32(as<__m512i>(joined_pairs));
  store16(to, without_fourth(_mm256_castsi256_si128(lanes)));
  store16(to + 12, without_fourth(_mm256_extracti128_si256(lanes, 1)));
#else
  const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0);
  const __m256i lanes = _mm256_permutevar8x32_epi32(as<__m256i>(joined_pairs), even);
  store16(to, without_fourth(_mm256_castsi256_si128(lanes)));
#endif
}
inline Ints get_twelves(const std::uint8_t* from) {
#if ANYACCEL_WIDTH == 16
  const __m256i lanes = _mm256_inserti128_si256(_mm256_castsi128_si256(with_fourth(load16(from))),
                                                with_fourth(load16(from + 12)), 1);
  const auto pairs = as<Pairs>(_mm512_cvtepu32_epi64(lanes));
#else
  const auto pairs = as<Pairs>(_mm256_cvtepu32_epi64(with_fourth(load16(from))));
#endif
  return as<Ints>((pairs & 0xfff) | (pairs << 20 & 0xfff00000000));
}

/// Stores the codes of a vector in `to`.
template <int bits>
inline void put_codes(std::uint8_t* to, Ints codes) {
  if (bits == 12) return put_twelves(to, codes);
  if (bits == 6) return put_sixes(to, codes);
  auto* const bytes = reinterpret_cast<std::int8_t*>(to);
  bits == 8 ? store_bytes(bytes, codes) : store_nibbles<false>(bytes, codes);
}
template <int bits>
inline Ints get_codes(const std::uint8_t* from) {
  if (bits == 12) return get_twelves(from);
  if (bits == 6) return get_sixes(from);
  return bits == 8 ? load_bytes(from) : load_nibbles<false>(from);
}

/// For each vector of a block, pack_piece() calls make(i), which returns the codes of the vector
/// that starts at element i, and stores these codes. unpack_piece() calls take(i, codes) instead.
template <int bits, typename Make>
inline __attribute__((always_inline)) void pack_piece(std::uint8_t* to, const Make& make) {
  for (int i = 0; i < piece; i += Vec::width) put_codes<bits>(to + i * bits / 8, make(i));
}
template <int bits, typename Take>
inline __attribute__((always_inline)) void unpack_piece(const std::uint8_t* from,
                                                        const Take& take) {
  for (int i = 0; i < piece; i += Vec::width) take(i, get_codes<bits>(from + i * bits / 8));
}

#else

/// Returns a mask that selects the lowest `full` bits of each `field`-bit field.
constexpr std::uint64_t low_bits(int field, int full) {
  std::uint64_t out = 0;
  for (int at = 0; at < 64; at += field) out |= ((std::uint64_t{1} << full) - 1) << at;
  return out;
}

/// Joins neighboring fields, step by step. Fields of `field` bits with `full` used bits become
/// fields of twice the width with twice as many used bits.
template <int field, int full>
inline std::uint64_t packed(std::uint64_t w) {
  if constexpr (field == 64) {
    return w;
  } else {
    constexpr std::uint64_t low = low_bits(2 * field, full);
    return packed<2 * field, 2 * full>((w & low) | ((w >> (field - full)) & (low << full)));
  }
}
template <int field, int full>
inline std::uint64_t unpacked(std::uint64_t w) {
  if constexpr (field == 64) {
    return w;
  } else {
    constexpr std::uint64_t low = low_bits(2 * field, full);
    const std::uint64_t wide = unpacked<2 * field, 2 * full>(w);
    return (wide & low) | ((wide & (low << full)) << (field - full));
  }
}

/// Unpacked codes: one byte per code, or two bytes if a code has more than 8 bits. They are packed
/// 64 bits at a time.
template <int bits>
struct Loose {
  static constexpr int width = bits > 8 ? 16 : 8;
  static constexpr int words = piece * width / 64;
  static constexpr int bytes = 64 / width * bits / 8;  ///< size of a packed word in bytes
  std::uint64_t word[words];

  char* place(int i) { return reinterpret_cast<char*>(word) + i * width / 8; }
};

template <int bits, typename Make>
inline __attribute__((always_inline)) void pack_piece(std::uint8_t* to, const Make& make) {
  using L = Loose<bits>;
  L loose;
  for (int i = 0; i < piece; i += Vec::width)
    L::width == 8 ? store_bytes(reinterpret_cast<std::int8_t*>(loose.place(i)), make(i))
                  : store_shorts(reinterpret_cast<std::int16_t*>(loose.place(i)), make(i));
  for (int i = 0; i < L::words; ++i) {
    const std::uint64_t word = packed<L::width, bits>(loose.word[i]);
    __builtin_memcpy(to + i * L::bytes, &word, L::bytes);
  }
}
template <int bits, typename Take>
inline __attribute__((always_inline)) void unpack_piece(const std::uint8_t* from,
                                                        const Take& take) {
  using L = Loose<bits>;
  L loose;
  for (int i = 0; i < L::words; ++i) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, from + i * L::bytes, L::bytes);
    loose.word[i] = unpacked<L::width, bits>(word);
  }
  for (int i = 0; i < piece; i += Vec::width)
    take(i, L::width == 8 ? load_bytes(reinterpret_cast<const std::uint8_t*>(loose.place(i)))
                          : load_shorts(reinterpret_cast<const std::int16_t*>(loose.place(i))));
}

#endif

}  // namespace
ANYACCEL_ISA_END
#endif
