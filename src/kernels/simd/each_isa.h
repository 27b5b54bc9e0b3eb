// Compiles the file that ANYACCEL_KERNEL names once for each instruction set of this architecture, in the namespace
// anyaccel::ops::<set>, where `Vec` is a vector of floats and ANYACCEL_WIDTH how many. Included once, by the source that has the
// kernels.
//
// What is compiled under a target must not use inline functions of the standard library: the linker could give the copy
// with these instructions to the rest of the program. IWYU pragma: private
#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

#if defined(__clang__)
#define ANYACCEL_TARGET_PRAGMA(text) _Pragma(#text)
#define ANYACCEL_TARGET(list) \
  ANYACCEL_TARGET_PRAGMA(clang attribute push(__attribute__((target(list))), apply_to = function))
#define ANYACCEL_TARGET_END _Pragma("clang attribute pop")
#else
#define ANYACCEL_TARGET_PRAGMA(text) _Pragma(#text)
#define ANYACCEL_TARGET(list) _Pragma("GCC push_options") ANYACCEL_TARGET_PRAGMA(GCC target(list))
#define ANYACCEL_TARGET_END _Pragma("GCC pop_options")
#endif

#define ANYACCEL_WIDTH 1
namespace anyaccel::ops::scalar {
namespace {
#include "kernels/simd/vec_scalar.h"
}
#include ANYACCEL_KERNEL
}  // namespace anyaccel::ops::scalar
#undef ANYACCEL_WIDTH

#if defined(__x86_64__)
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 reports its own headers
#endif

ANYACCEL_TARGET("avx2,fma,f16c")
#define ANYACCEL_WIDTH 8
namespace anyaccel::ops::avx2 {
namespace {
#include "kernels/simd/vec_avx2.h"
}
#include ANYACCEL_KERNEL
}  // namespace anyaccel::ops::avx2
#undef ANYACCEL_WIDTH
ANYACCEL_TARGET_END

ANYACCEL_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define ANYACCEL_WIDTH 16
namespace anyaccel::ops::avx512 {
namespace {
#include "kernels/simd/vec_avx512.h"
}
#include ANYACCEL_KERNEL
}  // namespace anyaccel::ops::avx512
#undef ANYACCEL_WIDTH
ANYACCEL_TARGET_END

/// Calls `function` of the namespace of the instruction set.
#define ANYACCEL_CALL_ISA(isa, function, ...)                                             \
  ((isa) == ::anyaccel::ops::Isa::avx512 ? ::anyaccel::ops::avx512::function(__VA_ARGS__) \
   : (isa) == ::anyaccel::ops::Isa::avx2 ? ::anyaccel::ops::avx2::function(__VA_ARGS__)   \
                                         : ::anyaccel::ops::scalar::function(__VA_ARGS__))
#elif defined(__aarch64__)
#include <arm_neon.h>

#define ANYACCEL_WIDTH 4
namespace anyaccel::ops::neon {
namespace {
#include "kernels/simd/vec_neon.h"
}
#include ANYACCEL_KERNEL
}  // namespace anyaccel::ops::neon
#undef ANYACCEL_WIDTH

#define ANYACCEL_CALL_ISA(isa, function, ...)                                         \
  ((isa) == ::anyaccel::ops::Isa::neon ? ::anyaccel::ops::neon::function(__VA_ARGS__) \
                                       : ::anyaccel::ops::scalar::function(__VA_ARGS__))
#else
#define ANYACCEL_CALL_ISA(isa, function, ...) ::anyaccel::ops::scalar::function(__VA_ARGS__)
#endif
