// The floating-point loops for aarch64 with bfloat16 conversions, which are called only if the CPU
// supports them. Integer reductions use the baseline loops. Empty on other architectures.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "comm/shm/reduce.h"

namespace anyaccel::ops::shm {
extern const Kernels kernels_baseline;
}

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=armv8.2-a+bf16"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+bf16")
#endif

namespace anyaccel::ops::shm::neon_bf16 {
namespace {

/// Rounds like rounded_bf16() in reduce_loops.h, also for NaN.
uint16x8_t bf16_words(float32x4_t low, float32x4_t high) {
  return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
}
float32x4_t low_floats(uint16x8_t words) {
  return vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(words), 16));
}
float32x4_t high_floats(uint16x8_t words) {
  return vreinterpretq_f32_u32(vshll_high_n_u16(words, 16));
}

__attribute__((noinline)) void narrow_bf16(const float* from, std::uint16_t* to,
                                           std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8)
    vst1q_u16(to + i, bf16_words(vld1q_f32(from + i), vld1q_f32(from + i + 4)));
  if (i == count) return;
  float rest[8] = {};
  std::uint16_t words[8];
  __builtin_memcpy(rest, from + i, (count - i) * sizeof(float));
  vst1q_u16(words, bf16_words(vld1q_f32(rest), vld1q_f32(rest + 4)));
  __builtin_memcpy(to + i, words, (count - i) * sizeof(std::uint16_t));
}

/// Sums or averages the elements that fill whole vectors, and returns the number of these elements.
std::size_t add_bf16(std::uint16_t* out, const std::uint16_t* a, const std::uint16_t* b,
                     std::size_t count, float factor) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const uint16x8_t x = vld1q_u16(a + i), y = vld1q_u16(b + i);
    float32x4_t low = vaddq_f32(low_floats(x), low_floats(y));
    float32x4_t high = vaddq_f32(high_floats(x), high_floats(y));
    if (factor != 1.0F) {
      low = vmulq_n_f32(low, factor);
      high = vmulq_n_f32(high, factor);
    }
    vst1q_u16(out + i, bf16_words(low, high));
  }
  return i;
}

}  // namespace
}  // namespace anyaccel::ops::shm::neon_bf16

#define ANYACCEL_SHM_SET neon_bf16
#define ANYACCEL_SHM_NEON_BF16 1
#define ANYACCEL_SHM_INTEGERS_OF kernels_baseline
#include "comm/shm/reduce_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

namespace anyaccel::ops::shm {
extern const Kernels kernels_neon_bf16;
const Kernels kernels_neon_bf16{"neon_bf16", &neon_bf16::reduce_all};
}  // namespace anyaccel::ops::shm
#endif
