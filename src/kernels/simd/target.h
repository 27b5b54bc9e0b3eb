// Macros for files that are compiled once per instruction set.
//
// A file `*_isa.h` first includes the headers that it uses and then puts its code between
// ANYACCEL_ISA_BEGIN and ANYACCEL_ISA_END. These open and close the namespace
// anyaccel::ops::ANYACCEL_ISA and select the compiler target of the instruction set. each_isa.h
// defines ANYACCEL_ISA. If a tool such as an editor or a linter parses a file on its own, the file
// is compiled for `scalar`; -DANYACCEL_ISA=avx512 selects a different set.
//
// All standard library and intrinsics headers must be included outside of BEGIN and END. Code under
// a target must not instantiate inline functions of the standard library either: the linker could
// use this instance for the whole program, although it contains instructions that the processor may
// lack.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own headers
#endif
#elif defined(__aarch64__)
#include <arm_neon.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // for arrays that loops fill, as on x86-64
#endif
#endif

#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA scalar
#endif

#define ANYACCEL_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define ANYACCEL_PUSH_TARGET(list) \
  ANYACCEL_PRAGMA(clang attribute push(__attribute__((target(list))), apply_to = function))
#define ANYACCEL_POP_TARGET _Pragma("clang attribute pop")
#else
#define ANYACCEL_PUSH_TARGET(list) _Pragma("GCC push_options") ANYACCEL_PRAGMA(GCC target(list))
#define ANYACCEL_POP_TARGET _Pragma("GCC pop_options")
#endif

// For each set: the number of elements of a `Vec`, and the compiler target. `fp64` has vectors of
// double.
#define ANYACCEL_WIDTH_scalar 1
#define ANYACCEL_PUSH_scalar
#define ANYACCEL_POP_scalar

#define ANYACCEL_WIDTH_fp64 2
#define ANYACCEL_PUSH_fp64
#define ANYACCEL_POP_fp64

#define ANYACCEL_WIDTH_neon 4
#define ANYACCEL_PUSH_neon
#define ANYACCEL_POP_neon

// arm_neon.h declares the functions for these features with the same base architecture.
#define ANYACCEL_WIDTH_neon_dotprod 4
#define ANYACCEL_PUSH_neon_dotprod ANYACCEL_PUSH_TARGET("arch=armv8.2-a+dotprod")
#define ANYACCEL_POP_neon_dotprod ANYACCEL_POP_TARGET

#define ANYACCEL_I8MM_neon_i8mm 1
#define ANYACCEL_WIDTH_neon_i8mm 4
#define ANYACCEL_PUSH_neon_i8mm ANYACCEL_PUSH_TARGET("arch=armv8.2-a+dotprod+i8mm")
#define ANYACCEL_POP_neon_i8mm ANYACCEL_POP_TARGET

#define ANYACCEL_BF16_neon_bf16 1
#define ANYACCEL_WIDTH_neon_bf16 4
#define ANYACCEL_PUSH_neon_bf16 ANYACCEL_PUSH_TARGET("arch=armv8.2-a+dotprod+i8mm+bf16")
#define ANYACCEL_POP_neon_bf16 ANYACCEL_POP_TARGET

#define ANYACCEL_WIDTH_avx2 8
#define ANYACCEL_PUSH_avx2 ANYACCEL_PUSH_TARGET("avx2,fma,f16c")
#define ANYACCEL_POP_avx2 ANYACCEL_POP_TARGET

#define ANYACCEL_WIDTH_avx512 16
#define ANYACCEL_PUSH_avx512 \
  ANYACCEL_PUSH_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define ANYACCEL_POP_avx512 ANYACCEL_POP_TARGET

#define ANYACCEL_WIDTH_avx512_vnni 16
#define ANYACCEL_PUSH_avx512_vnni \
  ANYACCEL_PUSH_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#define ANYACCEL_POP_avx512_vnni ANYACCEL_POP_TARGET

#define ANYACCEL_WIDTH_avx512_bf16 16
#define ANYACCEL_PUSH_avx512_bf16 \
  ANYACCEL_PUSH_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#define ANYACCEL_POP_avx512_bf16 ANYACCEL_POP_TARGET

#define ANYACCEL_JOIN_TOKENS(a, b) a##b
#define ANYACCEL_JOIN(a, b) ANYACCEL_JOIN_TOKENS(a, b)
// These depend on the value of ANYACCEL_ISA at the point of use.
#define ANYACCEL_WIDTH ANYACCEL_JOIN(ANYACCEL_WIDTH_, ANYACCEL_ISA)
#define ANYACCEL_DOUBLE (ANYACCEL_WIDTH == ANYACCEL_WIDTH_fp64)
// Whether the set has matrix products of bytes, and bfloat16 instructions, on aarch64. For use in
// #if: for other sets, these are unknown names, which count as 0.
#define ANYACCEL_I8MM ANYACCEL_JOIN(ANYACCEL_I8MM_, ANYACCEL_ISA)
#define ANYACCEL_BF16 ANYACCEL_JOIN(ANYACCEL_BF16_, ANYACCEL_ISA)
#define ANYACCEL_ISA_BEGIN \
  ANYACCEL_JOIN(ANYACCEL_PUSH_, ANYACCEL_ISA) namespace anyaccel::ops::ANYACCEL_ISA {
#define ANYACCEL_ISA_END \
  }                      \
  ANYACCEL_JOIN(ANYACCEL_POP_, ANYACCEL_ISA)
