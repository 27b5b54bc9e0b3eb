// Loads of two vectors, for the sets that extend NEON.
#if defined(ANYACCEL_SIMD_NEON_LOADS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_NEON_LOADS_ISA_H)
#undef ANYACCEL_SIMD_NEON_LOADS_ISA_H
#else
#define ANYACCEL_SIMD_NEON_LOADS_ISA_H
#endif

#if defined(__aarch64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA neon_i8mm  // default for tools that parse only this file
#endif

#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

/// Loads 32 bytes.
inline __attribute__((always_inline)) void load_two(const std::int8_t* from, int8x16_t& a,
                                                    int8x16_t& b) {
#if defined(__clang__)
  a = vld1q_s8(from);
  b = vld1q_s8(from + 16);
#else
  // GCC 12 moves two loads apart and then cannot merge them into one instruction.
  const auto* const both = reinterpret_cast<const int8x16_t*>(from);
  asm("ldp %q0, %q1, %2" : "=w"(a), "=w"(b) : "Ump"(both[0]), "m"(both[1]));
#endif
}

}  // namespace
ANYACCEL_ISA_END
#endif
#endif
