// Exact products of a row's 16-bit integers with 8-bit or 4-bit weights, on aarch64 processors with
// dot products (neon_dotprod) or matrix products (neon_i8mm) of bytes.
//
// These instructions multiply signed bytes. A row's integers x are therefore stored as two signed
// bytes: x = 256 * upper + lower. Weights are read in units of 32 inputs of four outputs.
//
// Inputs are stored in the order in which a unit's registers contain them: a register of 16 int8
// weights has 16 consecutive inputs, and a register of 16 bytes with int4 weights has 16 inputs in
// its lower nibbles and 16 in its upper nibbles.
#if defined(ANYACCEL_DECODER_NEON_DOT_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_NEON_DOT_ISA_H)
#undef ANYACCEL_DECODER_NEON_DOT_ISA_H
#else
#define ANYACCEL_DECODER_NEON_DOT_ISA_H
#endif

#if defined(__aarch64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA neon_i8mm  // default for tools that parse only this file
#endif

#include "kernels/decoder/matrix.h"
#include "kernels/simd/neon_loads_isa.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr std::int64_t row_block = 128;  // number of inputs in a row that share a scale
constexpr std::int64_t unit = 32;

/// Largest magnitude of a row's integers: their upper and lower bytes are at most 127.
constexpr float greatest_word = 127 * 257;

struct Unit {
  int8x16_t w[8];
};

#if ANYACCEL_I8MM
/// A register holds 8 inputs of two outputs.
inline int8x16_t low_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
inline int8x16_t high_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
#endif

inline int8x16_t low_nibbles(int8x16_t a) { return vandq_s8(a, vdupq_n_s8(15)); }
inline int8x16_t high_nibbles(int8x16_t a) {
  return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(a), 4));
}

/// Loads 32 weights, which begin at from[o] + at, of each output o.
template <bool four_bits>
inline __attribute__((always_inline)) Unit load_unit(const std::int8_t* const (&from)[4],
                                                     std::int64_t at) {
  Unit out;
  int8x16_t first[4], second[4];
  for (int o = 0; o < 4; ++o) {
    if (four_bits)
      first[o] = vld1q_s8(from[o] + at);
    else
      load_two(from[o] + at, first[o], second[o]);
  }
#if ANYACCEL_I8MM
  for (int o = 0; o < 4; o += 2) {
    const int8x16_t low = low_halves(first[o], first[o + 1]),
                    high = high_halves(first[o], first[o + 1]);
    int8x16_t* const to = out.w + 2 * o;
    to[0] = four_bits ? low_nibbles(low) : low;
    to[1] = four_bits ? low_nibbles(high) : high;
    to[2] = four_bits ? high_nibbles(low) : low_halves(second[o], second[o + 1]);
    to[3] = four_bits ? high_nibbles(high) : high_halves(second[o], second[o + 1]);
  }
#else
  for (int o = 0; o < 4; ++o) {
    out.w[2 * o] = four_bits ? low_nibbles(first[o]) : first[o];
    out.w[2 * o + 1] = four_bits ? high_nibbles(first[o]) : second[o];
  }
#endif
  return out;
}

/// Returns the upper bytes of words of at most greatest_word. The lower bytes are words modulo 256.
inline int8x8_t upper_bytes(int16x8_t words) {
  return vshrn_n_s16(vaddq_s16(words, vdupq_n_s16(128)), 8);
}

/// Sums of products for a row and four outputs. A row's bytes for a unit are 64 bytes.
#if ANYACCEL_I8MM
/// 16 bytes of a row are the upper bytes of 8 inputs, followed by their lower bytes. A matrix
/// product with two outputs yields the sums (upper, lower) of the first output, then those of the
/// second.
template <std::int64_t block>
struct Sums {
  int32x4_t x[2];
  inline __attribute__((always_inline)) Sums() { x[0] = x[1] = vdupq_n_s32(0); }
  inline __attribute__((always_inline)) void add(const Unit& weights, const std::int8_t* row) {
    const int8x16x4_t bytes = vld1q_s8_x4(row);
    for (int k = 0; k < 4; ++k)
      for (int pair = 0; pair < 2; ++pair)
        x[pair] = vmmlaq_s32(x[pair], weights.w[4 * pair + k], bytes.val[k]);
  }
  inline __attribute__((always_inline)) int32x4_t total() const {
    const int32x4_t shifts = {8, 0, 8, 0};
    return vpaddq_s32(vshlq_s32(x[0], shifts), vshlq_s32(x[1], shifts));
  }
};
/// Stores the bytes of 16 inputs.
inline void store_words(int16x8_t a, int16x8_t b, std::int8_t* to) {
  vst1q_s8(to, vcombine_s8(upper_bytes(a), vmovn_s16(a)));
  vst1q_s8(to + 16, vcombine_s8(upper_bytes(b), vmovn_s16(b)));
}
constexpr bool matrix_products = true;
#else
/// A row's bytes are the upper bytes of 16 inputs, their lower bytes, and the same for the next 16.
template <std::int64_t block>
struct Sums {
  int32x4_t upper[4], lower[4];
  inline __attribute__((always_inline)) Sums() {
    for (int o = 0; o < 4; ++o) upper[o] = lower[o] = vdupq_n_s32(0);
  }
  inline __attribute__((always_inline)) void add(const Unit& weights, const std::int8_t* row) {
    const int8x16x4_t bytes = vld1q_s8_x4(row);
    const int8x16_t* const x = bytes.val;
    for (int o = 0; o < 4; ++o) {
      upper[o] = vdotq_s32(vdotq_s32(upper[o], weights.w[2 * o], x[0]), weights.w[2 * o + 1], x[2]);
      // A block of a single unit needs no second sum.
      if (block == 32) lower[o] = vshlq_n_s32(upper[o], 8);
      lower[o] = vdotq_s32(vdotq_s32(lower[o], weights.w[2 * o], x[1]), weights.w[2 * o + 1], x[3]);
    }
  }
  inline __attribute__((always_inline)) int32x4_t total() const {
    int32x4_t all[4];
    for (int o = 0; o < 4; ++o)
      all[o] = block == 32 ? lower[o] : vaddq_s32(lower[o], vshlq_n_s32(upper[o], 8));
    return vpaddq_s32(vpaddq_s32(all[0], all[1]), vpaddq_s32(all[2], all[3]));
  }
};
inline void store_words(int16x8_t a, int16x8_t b, std::int8_t* to) {
  vst1q_s8(to, vcombine_s8(upper_bytes(a), upper_bytes(b)));
  vst1q_s8(to + 16, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
}
constexpr bool matrix_products = false;
#endif

}  // namespace
ANYACCEL_ISA_END
#endif
#endif
