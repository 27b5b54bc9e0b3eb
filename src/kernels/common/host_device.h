// Functions that are compiled for a CUDA device and for the host, whose tests run what a device
// would.
#pragma once

#if defined(__CUDACC__)
#define ANYACCEL_ON_BOTH __host__ __device__ inline
#else
#define ANYACCEL_ON_BOTH inline
#endif

/// In front of a loop of a known number of turns, whose arrays are to be registers.
#if defined(__CUDA_ARCH__)
#define ANYACCEL_UNROLL _Pragma("unroll")
#else
#define ANYACCEL_UNROLL
#endif
