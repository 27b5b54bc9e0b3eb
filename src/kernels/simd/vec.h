// `Vec`, a vector of `Real` for the current instruction set. vec_scalar.h documents the members.
#if defined(ANYACCEL_SIMD_VEC_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_VEC_ISA_H)
#undef ANYACCEL_SIMD_VEC_ISA_H
#else
#define ANYACCEL_SIMD_VEC_ISA_H
#endif

#include "kernels/simd/target.h"

#if ANYACCEL_WIDTH == 16
#include "kernels/simd/vec_avx512.h"
#elif ANYACCEL_WIDTH == 8
#include "kernels/simd/vec_avx2.h"
#elif ANYACCEL_WIDTH == 4
#include "kernels/simd/vec_neon.h"
#elif ANYACCEL_DOUBLE
#include "kernels/simd/vec_double.h"
#else
#include "kernels/simd/vec_scalar.h"
#endif
#endif
