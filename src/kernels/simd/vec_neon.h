// A vector of four floats on 64-bit Arm. vec_scalar.h documents the members. Include vec.h, which
// has the include guard.
#if defined(__aarch64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA neon  // default for tools that parse only this file
#endif

#include "kernels/simd/element.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

using Real = float;

struct Vec {
  static constexpr int width = 4;
  float32x4_t x;

  static Vec of(float value) { return {vdupq_n_f32(value)}; }
  static Vec load(const float* from) { return {vld1q_f32(from)}; }
  static Vec load(const Bf16* from) {
    return {vreinterpretq_f32_u32(vshll_n_u16(load16(from), 16))};
  }
  static Vec load(const Fp16* from) { return {vcvt_f32_f16(vreinterpret_f16_u16(load16(from)))}; }
  void store(float* to) const { vst1q_f32(to, x); }
#if ANYACCEL_BF16
  void store(Bf16* to) const { store16(to, vreinterpret_u16_bf16(vcvt_bf16_f32(x))); }
#else
  void store(Bf16* to) const {
    const uint32x4_t b = vreinterpretq_u32_f32(x);
    const uint32x4_t last = vandq_u32(vshrq_n_u32(b, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(b, vdupq_n_u32(0x7fff)), last), 16);
    store16(to, vmovn_u32(vbslq_u32(vceqq_f32(x, x), rounded, vdupq_n_u32(0x7fc0))));
  }
#endif
  void store(Fp16* to) const { store16(to, vreinterpret_u16_f16(vcvt_f16_f32(x))); }

  static Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.x, a.x, b.x)}; }
  static Vec reciprocal(Vec a) { return {vdivq_f32(vdupq_n_f32(1.0F), a.x)}; }
  static Vec sqrt(Vec a) { return {vsqrtq_f32(a.x)}; }
  static Vec sign(Vec a) {
    const uint32x4_t some =
        vorrq_u32(vcgtq_f32(a.x, vdupq_n_f32(0)), vcltq_f32(a.x, vdupq_n_f32(0)));
    const uint32x4_t bit = vandq_u32(vreinterpretq_u32_f32(a.x), vdupq_n_u32(0x80000000U));
    const uint32x4_t one = vorrq_u32(bit, vreinterpretq_u32_f32(vdupq_n_f32(1)));
    return {vbslq_f32(some, vreinterpretq_f32_u32(one), a.x)};
  }
  static Vec finite_or_zero(Vec a) {
    const uint32x4_t finite = vcltq_f32(vabsq_f32(a.x), vdupq_n_f32(__builtin_inff()));
    return {vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a.x), finite))};
  }

 private:
  static uint16x4_t load16(const void* from) {
    return vld1_u16(static_cast<const std::uint16_t*>(from));
  }
  static void store16(void* to, uint16x4_t bits) {
    vst1_u16(static_cast<std::uint16_t*>(to), bits);
  }
};

inline Vec operator*(Vec a, Vec b) { return {vmulq_f32(a.x, b.x)}; }
inline Vec operator+(Vec a, Vec b) { return {vaddq_f32(a.x, b.x)}; }
inline Vec operator/(Vec a, Vec b) { return {vdivq_f32(a.x, b.x)}; }

}  // namespace
ANYACCEL_ISA_END
#endif
