// A vector of one float, for any processor. Include vec.h, which has the include guard.
//
// The other vec_*.h files have the same members, except that vec_double.h has only those that its
// kernels use.
#include "kernels/simd/element.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

using Real = float;

struct Vec {
  static constexpr int width = 1;
  float x;

  static Vec of(float value) { return {value}; }
  static Vec load(const float* from) {
    Vec out;
    __builtin_memcpy(&out.x, from, 4);
    return out;
  }
  static Vec load(const Bf16* from) {
    return from_bits(static_cast<std::uint32_t>(bits16(from)) << 16);
  }
  static Vec load(const Fp16* from) {
    const std::uint32_t half = bits16(from);
    const std::uint32_t sign = (half & 0x8000U) << 16;
    const std::uint32_t exponent = (half >> 10) & 31U;
    const std::uint32_t mantissa = half & 0x3ffU;
    if (exponent == 31U)
      return from_bits(sign | 0x7f800000U | (mantissa ? 0x400000U | (mantissa << 13) : 0U));
    if (exponent) return from_bits(sign | ((exponent + 112U) << 23) | (mantissa << 13));
    const float small = static_cast<float>(mantissa) * 0x1p-24F;
    return {sign ? -small : small};
  }
  void store(float* to) const { __builtin_memcpy(to, &x, 4); }
  void store(Bf16* to) const {
    const std::uint32_t b = bits();
    const std::uint32_t rounded = (b + 0x7fffU + ((b >> 16) & 1U)) >> 16;
    put16(to, (b & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
  }
  void store(Fp16* to) const {
    const std::uint32_t b = bits();
    const std::uint32_t sign = (b >> 16) & 0x8000U;
    const std::uint32_t magnitude = b & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return put16(to, sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    if (magnitude >= 0x477ff000U)
      return put16(to, sign | 0x7c00U);  // 65520 and above round to infinity
    if (magnitude < 0x38800000U) {       // below 2^-14: the last bit of the sum is 2^-24
      Vec sum = from_bits(magnitude);
      sum.x += 0.5F;
      return put16(to, sign | (sum.bits() - 0x3f000000U));
    }
    put16(to, sign | ((magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13));
  }

  static Vec fma(Vec a, Vec b, Vec c) { return {__builtin_fmaf(a.x, b.x, c.x)}; }
  /// Returns 1 / a, and is faster than operator/ on some processors. Correctly rounded if a is 0,
  /// infinite, NaN, or has a magnitude from 2^-126 to 2^126.
  static Vec reciprocal(Vec a) { return {1.0F / a.x}; }
  static Vec sqrt(Vec a) { return {__builtin_sqrtf(a.x)}; }
  /// Returns -1 or 1 with the sign of a, or a itself if it is 0 or NaN.
  static Vec sign(Vec a) { return {a.x > 0 ? 1.0F : a.x < 0 ? -1.0F : a.x}; }
  /// Returns a if it is finite, and 0 otherwise.
  static Vec finite_or_zero(Vec a) { return {(a.bits() & 0x7fffffffU) < 0x7f800000U ? a.x : 0.0F}; }

 private:
  std::uint32_t bits() const {
    std::uint32_t out;
    __builtin_memcpy(&out, &x, 4);
    return out;
  }
  static Vec from_bits(std::uint32_t bits) {
    Vec out;
    __builtin_memcpy(&out.x, &bits, 4);
    return out;
  }
  static std::uint16_t bits16(const void* from) {
    std::uint16_t out;
    __builtin_memcpy(&out, from, 2);
    return out;
  }
  static void put16(void* to, std::uint32_t value) {
    const auto half = static_cast<std::uint16_t>(value);
    __builtin_memcpy(to, &half, 2);
  }
};

inline Vec operator*(Vec a, Vec b) { return {a.x * b.x}; }
inline Vec operator+(Vec a, Vec b) { return {a.x + b.x}; }
inline Vec operator/(Vec a, Vec b) { return {a.x / b.x}; }

}  // namespace
ANYACCEL_ISA_END
