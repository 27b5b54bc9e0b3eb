// Loads eight consecutive weights of a row, for every weight format, and converts them to floats.
// Also compiled for the host.
//
// A thread always loads eight inputs at a time, which are 4 to 32 bytes of the matrix. The rows of
// x are floats, so wider loads of integers would spread the loads of x over more L1 cache lines
// than the cache delivers per cycle.
#pragma once

#include <cmath>

#include "kernels/cuda/vectors.h"
#include "kernels/decoder/matrix.h"

namespace anyaccel::ops {

constexpr int chunk_inputs = 8;

ANYACCEL_ON_BOTH float float_of_bits(std::uint32_t bits) {
  float out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

/// The float 2^23 + n contains n in its lowest bits. Building this float converts an integer faster
/// than the conversion instruction does.
constexpr std::uint32_t float_magic = 0x4b000000U;
constexpr float float_magic_value = 8388608.0F;

/// Loads `count` 32-bit words from `from`, using vector loads if it is aligned.
template <int count>
ANYACCEL_ON_BOTH void load_words(const void* from, bool aligned, std::uint32_t (&to)[count]) {
  if (aligned) expect_aligned(from, 4 * count);
#if defined(__CUDA_ARCH__)
  if (aligned) {
    if constexpr (count == 2) {
      const uint2 both = __ldcs(static_cast<const uint2*>(from));
      to[0] = both.x;
      to[1] = both.y;
    } else {
      to[0] = __ldcs(static_cast<const std::uint32_t*>(from));
    }
    return;
  }
#endif
  const auto* const bytes = static_cast<const std::uint8_t*>(from);
  ANYACCEL_UNROLL
  for (int i = 0; i < count; ++i)
    to[i] = bytes[4 * i] | static_cast<std::uint32_t>(bytes[4 * i + 1]) << 8 |
            static_cast<std::uint32_t>(bytes[4 * i + 2]) << 16 |
            static_cast<std::uint32_t>(bytes[4 * i + 3]) << 24;
}

/// Weights of a floating-point type T.
template <typename T>
struct FloatWeights {
  static constexpr bool has_scales = false;
  static constexpr int align = 16;
  /// Weights remain packed in words until they are used, because 16-bit values in separate
  /// registers would need twice as many registers.
  struct Raw {
    std::uint32_t words[chunk_inputs * sizeof(T) / 4];
  };
  static ANYACCEL_ON_BOTH void load(const void* row, int begin, int inputs, bool aligned, Raw& to) {
    const T* const from = static_cast<const T*>(row) + begin;
    if (aligned) {
      ANYACCEL_UNROLL
      for (int i = 0; i < chunk_inputs; i += Sixteen<T>::count) {
        const Sixteen<T> some = load_sixteen<Reads::once>(from + i);
        memcpy(to.words + i * sizeof(T) / 4, &some, sizeof some);
      }
      return;
    }
    T values[chunk_inputs];
    ANYACCEL_UNROLL
    for (int i = 0; i < chunk_inputs; ++i)
      values[i] = begin + i < inputs ? from[i] : static_cast<T>(0.0F);
    memcpy(to.words, values, sizeof values);
  }
  static ANYACCEL_ON_BOTH void widen(const Raw& from, float /*zero*/, float (&to)[chunk_inputs]) {
    T values[chunk_inputs];
    memcpy(values, from.words, sizeof values);
    ANYACCEL_UNROLL
    for (int i = 0; i < chunk_inputs; ++i) to[i] = static_cast<float>(values[i]);
  }
  /// Loads the values of x that are multiplied by these weights.
  static ANYACCEL_ON_BOTH void load_row(const float* x, int begin, int inputs, int /*group*/,
                                        bool aligned, float (&to)[chunk_inputs]) {
    load_floats<chunk_inputs>(x + begin, aligned ? chunk_inputs : inputs - begin, aligned, to);
  }
  static ANYACCEL_ON_BOTH std::int64_t row_bytes(std::int64_t inputs) {
    return inputs * static_cast<std::int64_t>(sizeof(T));
  }
};

struct Int8Weights {
  static constexpr bool has_scales = true;
  static constexpr int align = 8;
  struct Raw {
    std::uint32_t words[2];
  };
  static ANYACCEL_ON_BOTH void load(const void* row, int begin, int /*inputs*/, bool aligned,
                                    Raw& to) {
    load_words(static_cast<const std::int8_t*>(row) + begin, aligned, to.words);
  }
  static ANYACCEL_ON_BOTH void widen(const Raw& from, float /*zero*/, float (&to)[chunk_inputs]) {
    ANYACCEL_UNROLL
    for (int i = 0; i < chunk_inputs; ++i) {
      const std::uint32_t above =
          (from.words[i / 4] ^ 0x80808080U) >> (8 * (i % 4)) & 255U;  // q + 128
      to[i] = float_of_bits(float_magic | above) - (float_magic_value + 128);
    }
  }
  static ANYACCEL_ON_BOTH void load_row(const float* x, int begin, int /*inputs*/, int /*group*/,
                                        bool aligned, float (&to)[chunk_inputs]) {
    load_floats<chunk_inputs>(x + begin, chunk_inputs, aligned, to);
  }
  static ANYACCEL_ON_BOTH std::int64_t row_bytes(std::int64_t inputs) { return inputs; }
};

/// int4 weights. A load reads two adjacent 16-bit words. Each nibble position (plane) of these
/// words holds two adjacent inputs of a block.
struct Int4Weights {
  static constexpr bool has_scales = true;
  static constexpr int align = 4;
  struct Raw {
    std::uint32_t words[1];
  };
  static ANYACCEL_ON_BOTH void load(const void* row, int begin, int /*inputs*/, bool aligned,
                                    Raw& to) {
    load_words(static_cast<const std::uint8_t*>(row) + begin / 2, aligned, to.words);
  }
  /// Converts one nibble position at a time. A masked nibble that starts at bit n is 2^n times its
  /// value; multiplying by `factor` corrects this, so no shift is needed.
  static ANYACCEL_ON_BOTH void widen(const Raw& from, float zero, float (&to)[chunk_inputs]) {
    const std::uint32_t low = from.words[0], high = from.words[0] >> 16;
    ANYACCEL_UNROLL
    for (int plane = 0; plane < 4; ++plane) {
      const float factor = 1.0F / static_cast<float>(1 << (4 * plane));
      const std::uint32_t mask = 15U << (4 * plane);
      const float off = -(float_magic_value * factor + zero);  // exact
      to[2 * plane] = fmaf(float_of_bits(float_magic | (low & mask)), factor, off);
      to[2 * plane + 1] = fmaf(float_of_bits(float_magic | (high & mask)), factor, off);
    }
  }
  static ANYACCEL_ON_BOTH void load_row(const float* x, int begin, int /*inputs*/, int group,
                                        bool aligned, float (&to)[chunk_inputs]) {
    const int block = group % 64 ? 32 : 64, words = block / 4;
    const float* const at = x + (begin & -block) + (begin & (block - 1)) / 4;
    ANYACCEL_UNROLL
    for (int plane = 0; plane < 4; ++plane) {
      const float* const two = at + plane * words;
      if (aligned) expect_aligned(two, sizeof(float) * 2);
#if defined(__CUDA_ARCH__)
      if (aligned) {
        const float2 both = __ldg(reinterpret_cast<const float2*>(two));
        to[2 * plane] = both.x;
        to[2 * plane + 1] = both.y;
        continue;
      }
#endif
      to[2 * plane] = two[0];
      to[2 * plane + 1] = two[1];
    }
  }
  static ANYACCEL_ON_BOTH std::int64_t row_bytes(std::int64_t inputs) { return inputs / 2; }
};

}  // namespace anyaccel::ops
