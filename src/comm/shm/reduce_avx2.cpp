// The AVX2 loops, which are called only if the CPU supports AVX2. Empty on other architectures.
#if defined(__x86_64__)
#include <immintrin.h>

#include "comm/shm/reduce.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c,fma"))), apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false positives in GCC 12's headers
#pragma GCC target("avx2,f16c,fma")
#endif
#define ANYACCEL_SHM_SET avx2
#define ANYACCEL_SHM_F16C 1
#include "comm/shm/reduce_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

namespace anyaccel::ops::shm {
extern const Kernels kernels_avx2;
const Kernels kernels_avx2{"avx2", &avx2::reduce_all};
}  // namespace anyaccel::ops::shm
#endif
