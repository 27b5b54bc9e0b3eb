// Compiles the file named by ANYACCEL_KERNEL once for each instruction set of this architecture, in
// the namespace anyaccel::ops::<set>. A source includes this file once and calls the kernels with
// ANYACCEL_CALL_ISA. These macros, if defined, name files that are compiled for one more set. The
// source calls their functions by their full names:
//   ANYACCEL_KERNEL_VNNI, ANYACCEL_KERNEL_BF16: AVX-512 with VNNI and with BF16
//   ANYACCEL_KERNEL_DOTPROD, ANYACCEL_KERNEL_I8MM, ANYACCEL_KERNEL_NEON_BF16: neon_dotprod,
//   neon_i8mm and neon_bf16
// If ANYACCEL_NEON_BF16_TOO is defined, ANYACCEL_KERNEL itself is also compiled for neon_bf16,
// which pays for kernels that store bfloat16 numbers.
//
// Each *_isa.h file has an include guard that is valid for one pass:
//   #if defined(ANYACCEL_FILE_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
//   #if defined(ANYACCEL_FILE_ISA_H)
//   #undef ANYACCEL_FILE_ISA_H
//   #else
//   #define ANYACCEL_FILE_ISA_H
//   #endif
//   ...
//   #endif
// The guard alternates with the toggle, so such a file must be included in every pass, starting
// with the first. Put code for only some sets inside the file, under #if. A file for exactly one
// set has #pragma once instead.
//
// IWYU pragma: private
#include "kernels/simd/isa.h"
#include "kernels/simd/target.h"

#if !defined(ANYACCEL_KERNEL)
#define ANYACCEL_KERNEL "kernels/simd/vec.h"  // default for tools that parse only this file
#endif

#undef ANYACCEL_ISA
#define ANYACCEL_ISA scalar
#include ANYACCEL_KERNEL
#include "kernels/simd/next_isa.h"

#if defined(__x86_64__)
#define ANYACCEL_ISA avx2
#include ANYACCEL_KERNEL
#include "kernels/simd/next_isa.h"

#define ANYACCEL_ISA avx512
#include ANYACCEL_KERNEL
#include "kernels/simd/next_isa.h"

#if defined(ANYACCEL_KERNEL_VNNI)
#define ANYACCEL_ISA avx512_vnni
#include ANYACCEL_KERNEL_VNNI
#include "kernels/simd/next_isa.h"
#endif

#if defined(ANYACCEL_KERNEL_BF16)
#define ANYACCEL_ISA avx512_bf16
#include ANYACCEL_KERNEL_BF16
#include "kernels/simd/next_isa.h"
#endif

/// Calls `function` from the namespace of the instruction set `isa`.
#define ANYACCEL_CALL_ISA(isa, function, ...)                                             \
  ((isa) == ::anyaccel::ops::Isa::avx512 ? ::anyaccel::ops::avx512::function(__VA_ARGS__) \
   : (isa) == ::anyaccel::ops::Isa::avx2 ? ::anyaccel::ops::avx2::function(__VA_ARGS__)   \
                                         : ::anyaccel::ops::scalar::function(__VA_ARGS__))
#elif defined(__aarch64__)
#define ANYACCEL_ISA neon
#include ANYACCEL_KERNEL
#include "kernels/simd/next_isa.h"

#if defined(ANYACCEL_KERNEL_DOTPROD)
#define ANYACCEL_ISA neon_dotprod
#include ANYACCEL_KERNEL_DOTPROD
#include "kernels/simd/next_isa.h"
#endif

#if defined(ANYACCEL_KERNEL_I8MM)
#define ANYACCEL_ISA neon_i8mm
#include ANYACCEL_KERNEL_I8MM
#include "kernels/simd/next_isa.h"
#endif

#if defined(ANYACCEL_KERNEL_NEON_BF16)
#define ANYACCEL_ISA neon_bf16
#include ANYACCEL_KERNEL_NEON_BF16
#include "kernels/simd/next_isa.h"
#endif

#if defined(ANYACCEL_NEON_BF16_TOO)
#define ANYACCEL_ISA neon_bf16
#include ANYACCEL_KERNEL
#include "kernels/simd/next_isa.h"

#define ANYACCEL_CALL_ISA(isa, function, ...)                                                   \
  ((isa) == ::anyaccel::ops::Isa::neon_bf16 ? ::anyaccel::ops::neon_bf16::function(__VA_ARGS__) \
   : ::anyaccel::ops::is_neon(isa)          ? ::anyaccel::ops::neon::function(__VA_ARGS__)      \
                                            : ::anyaccel::ops::scalar::function(__VA_ARGS__))
#else
#define ANYACCEL_CALL_ISA(isa, function, ...)                                   \
  (::anyaccel::ops::is_neon(isa) ? ::anyaccel::ops::neon::function(__VA_ARGS__) \
                                 : ::anyaccel::ops::scalar::function(__VA_ARGS__))
#endif
#else
#define ANYACCEL_CALL_ISA(isa, function, ...) ::anyaccel::ops::scalar::function(__VA_ARGS__)
#endif
