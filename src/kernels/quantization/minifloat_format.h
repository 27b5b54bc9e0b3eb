// 4- to 12-bit floating-point formats, for host and CUDA kernels: sign, exponent and mantissa from
// the highest bit downward. There are no infinities or NaNs. As in IEEE formats, an exponent field
// of 0 encodes zero and the subnormal numbers.
#pragma once

#include "kernels/quantization/range.h"

namespace anyaccel::ops {

struct FloatFormat {
  int bits, mantissa;
};
constexpr FloatFormat float_formats[] = {{8, 3}, {8, 2}, {12, 7}, {6, 2}, {4, 1}};

constexpr int exponent_of(FloatFormat f) { return f.bits - f.mantissa - 1; }
constexpr int bias_of(FloatFormat f) { return (1 << (exponent_of(f) - 1)) - 1; }
/// Mask of all bits except the sign. This is also the code of the largest number.
constexpr std::int32_t size_mask_of(FloatFormat f) { return (1 << (f.bits - 1)) - 1; }
/// Number of mantissa bits that are dropped from a float.
constexpr int lost_bits_of(FloatFormat f) { return 23 - f.mantissa; }
/// Value that is subtracted from the remaining bits of a float to change the exponent's bias.
constexpr std::int32_t rebias_of(FloatFormat f) { return (127 - bias_of(f)) << f.mantissa; }
/// Smallest normal number, as the bits of a float.
constexpr std::int32_t min_normal_of(FloatFormat f) { return (128 - bias_of(f)) << 23; }
/// Returns 2^n, for n from -126 to 127.
constexpr float power_of_2(int n) {
  float out = 1;
  for (; n > 0; --n) out *= 2;
  for (; n < 0; ++n) out /= 2;
  return out;
}
/// Returns the reciprocal of the distance between subnormal numbers.
constexpr float small_steps_of(FloatFormat f) { return power_of_2(bias_of(f) - 1 + f.mantissa); }
/// Adding this to a subnormal number leaves its code in the lowest bits of the sum.
constexpr float small_shift_of(FloatFormat f) { return power_of_2(23) / small_steps_of(f); }
/// Largest number: 480, 114688, 510, 28 and 6 for the formats in the order of float_formats.
constexpr float greatest_of(FloatFormat f) {
  return (2 - power_of_2(-f.mantissa)) * power_of_2((1 << exponent_of(f)) - 1 - bias_of(f));
}

/// Size of a quantized group in bytes. It consists of the codes without gaps, from the lowest bit
/// of the first byte upward, followed by the step size (a float).
constexpr std::int64_t row_bytes(FloatFormat f, std::int64_t group) {
  return group * f.bits / 8 + 4;
}

/// Maps the group's largest magnitude to the format's largest number. x * factor is encoded, and
/// the decoded number times `step` approximates x. If the group contains NaN or infinity, `step` is
/// set so that the whole group is decoded as NaN.
struct FloatScale {
  float factor, step;
  bool flat;  ///< all codes are 0
};
ANYACCEL_ON_BOTH FloatScale float_scale(std::int32_t greatest, float format_greatest) {
  const float most = float_of(greatest);
  const float factor = format_greatest / most;
  const bool is_number = greatest < infinity_bits && (bits_of(factor) & sign_mask) < infinity_bits;
  return {factor, most / format_greatest, !is_number};
}

// Random numbers for stochastic rounding. Each group has a key, derived from the seed. For each
// element, two rounds of a mixing function are applied.

ANYACCEL_ON_BOTH std::uint64_t mixed_key(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
ANYACCEL_ON_BOTH std::uint64_t group_key(std::uint64_t seed, std::int64_t group) {
  return mixed_key(mixed_key(seed + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(group) + 1)) +
                   seed);
}
ANYACCEL_ON_BOTH std::uint32_t mixed_word(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}
ANYACCEL_ON_BOTH std::uint32_t drawn_for(std::uint64_t key, std::uint32_t place) {
  return mixed_word(mixed_word(place + static_cast<std::uint32_t>(key)) ^
                    static_cast<std::uint32_t>(key >> 32));
}

/// Encodes a number. Rounds to nearest, with ties away from 0 as in DeepSpeed's kernels, or to even
/// for subnormal numbers. Stochastic rounding rounds up with a probability equal to the dropped
/// fraction. Magnitudes must not exceed the format's largest number by more than float's rounding
/// error.
ANYACCEL_ON_BOTH std::int32_t float_code_of(FloatFormat f, float y, bool stochastic,
                                            std::uint32_t random) {
  const std::int32_t bits = bits_of(y), size = bits & sign_mask;
  const int lost = 23 - f.mantissa, bias = (1 << (f.bits - f.mantissa - 2)) - 1;
  const int small_steps = bias - 1 + f.mantissa;  // log2 of small_steps_of()
  std::int32_t code;
  if (size >= (128 - bias) << 23) {
    const auto above =
        stochastic ? static_cast<std::int32_t>(random >> (9 + f.mantissa)) : 1 << (lost - 1);
    code = ((size + above) >> lost) - ((127 - bias) << f.mantissa);
  } else if (stochastic) {
    const float steps = float_of(size) * float_of((127 + small_steps) << 23);
    code = static_cast<std::int32_t>(steps);
    code += steps - static_cast<float>(code) >= 1.0F - static_cast<float>(random >> 16) * 0x1p-16F
                ? 1
                : 0;
  } else {
    const float shift = float_of((127 + 23 - small_steps) << 23);
    code = bits_of(float_of(size) + shift) - bits_of(shift);
  }
  const std::int32_t most = (1 << (f.bits - 1)) - 1;
  return (code < most ? code : most) | (bits < 0 ? most + 1 : 0);
}

ANYACCEL_ON_BOTH float float_of_code(FloatFormat f, std::int32_t code) {
  const std::int32_t size = code & ((1 << (f.bits - 1)) - 1);
  const int lost = 23 - f.mantissa, bias = (1 << (f.bits - f.mantissa - 2)) - 1;
  const float out = size < 1 << f.mantissa
                        ? static_cast<float>(size) * float_of((127 - (bias - 1 + f.mantissa)) << 23)
                        : float_of((size << lost) + ((127 - bias) << 23));
  return code >> (f.bits - 1) ? -out : out;
}

}  // namespace anyaccel::ops
