// Conversion of single vectors between floats and minifloat codes.
#if defined(ANYACCEL_QUANTIZATION_MINIFLOAT_LANES_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_QUANTIZATION_MINIFLOAT_LANES_ISA_H)
#undef ANYACCEL_QUANTIZATION_MINIFLOAT_LANES_ISA_H
#else
#define ANYACCEL_QUANTIZATION_MINIFLOAT_LANES_ISA_H
#endif

#include "kernels/quantization/lanes_isa.h"
#include "kernels/quantization/minifloat_format.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

inline Words mixed(Words x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}
inline Words places() {
  std::uint32_t out[Vec::width];
  for (int lane = 0; lane < Vec::width; ++lane) out[lane] = static_cast<std::uint32_t>(lane);
  Words lanes;
  __builtin_memcpy(&lanes, out, sizeof lanes);
  return lanes;
}

/// Returns the codes of subnormal magnitudes: whole steps, plus one if the remainder reaches a
/// random threshold.
template <int format>
inline __attribute__((always_inline)) Ints small_codes_of(Ints size, Words random) {
  constexpr FloatFormat f = float_formats[format];
  const Vec limit = Vec::of(1.0F) + vec_of(to_floats(as<Ints>(random >> 16))) * Vec::of(-0x1p-16F);
  // Clamp the steps, so that lanes with normal numbers are converted without overflow.
  const Vec steps = lesser(vec_of(as<Floats>(size)) * Vec::of(small_steps_of(f)),
                           Vec::of(power_of_2(f.mantissa + 1)));
  const Ints whole = to_ints(steps);
  const Vec rest = steps + vec_of(to_floats(whole)) * Vec::of(-1.0F);
  return whole + (rest.x >= limit.x ? all(1) : all(0));
}

/// float_code_of() for a vector. Its first element has the index `place`.
template <int format, bool stochastic>
inline __attribute__((always_inline)) Ints codes_of(Vec y, std::uint64_t key, std::uint32_t place) {
  constexpr FloatFormat f = float_formats[format];
  const Ints bits = lane_bits(y), size = bits & sign_mask;
  const Ints sign = (bits >> (32 - f.bits)) & (1 << (f.bits - 1));
  if (stochastic) {
    const Words random = mixed(mixed(places() + (place + static_cast<std::uint32_t>(key))) ^
                               static_cast<std::uint32_t>(key >> 32));
    const Ints normal =
        ((size + as<Ints>(random >> (9 + f.mantissa))) >> lost_bits_of(f)) - rebias_of(f);
    const Ints code = size < min_normal_of(f) ? small_codes_of<format>(size, random) : normal;
    return lesser(code, all(size_mask_of(f))) | sign;
  }
  const Ints normal = ((size + (1 << (lost_bits_of(f) - 1))) >> lost_bits_of(f)) - rebias_of(f);
  const Vec shift = Vec::of(small_shift_of(f));
  const Ints small = lane_bits(vec_of(as<Floats>(size)) + shift) - lane_bits(shift);
  return (size < min_normal_of(f) ? small : normal) | sign;
}

/// float_of_code() for a vector. Bits above the code must be 0.
template <int format>
inline __attribute__((always_inline)) Vec numbers_of(Ints code) {
  constexpr FloatFormat f = float_formats[format];
  const Ints size = code & size_mask_of(f);
  const Ints normal = (size << lost_bits_of(f)) + ((127 - bias_of(f)) << 23);
  const Ints small = lane_bits(vec_of(to_floats(size)) * Vec::of(1 / small_steps_of(f)));
  const Ints sign = as<Ints>(as<Words>(code >> (f.bits - 1)) << 31);
  return vec_of(as<Floats>((size < (1 << f.mantissa) ? small : normal) | sign));
}

/// Returns the largest magnitude, as the bits of a float.
template <typename T>
inline std::int32_t abs_max(const T* from, std::int64_t count) {
  return range_of<T, true>(from, count).high;
}

}  // namespace
ANYACCEL_ISA_END
#endif
