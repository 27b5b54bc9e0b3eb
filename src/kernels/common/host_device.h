// Macros for functions that are compiled both for CUDA devices and for the host, where tests run
// the device code.
#pragma once

#if defined(__CUDACC__)
#define ANYACCEL_ON_BOTH __host__ __device__ inline
#else
#define ANYACCEL_ON_BOTH inline
#endif

/// Unrolls a loop with a constant number of iterations, so that the arrays it indexes stay in
/// registers.
#if defined(__CUDA_ARCH__)
#define ANYACCEL_UNROLL _Pragma("unroll")
#else
#define ANYACCEL_UNROLL
#endif
