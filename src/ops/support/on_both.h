// Functions that are compiled for a CUDA device and for the host, whose tests run what a device would.
#pragma once

#if defined(__CUDACC__)
#define ANYACCEL_ON_BOTH __host__ __device__ inline
#else
#define ANYACCEL_ON_BOTH inline
#endif
