// The floating-point loops for AVX-512, which are called only if the CPU supports it. Integer
// reductions are limited by memory bandwidth and use the AVX2 loops. Empty on other architectures.
#if defined(__x86_64__)
#include <immintrin.h>

#include "comm/shm/reduce.h"

namespace anyaccel::ops::shm {
extern const Kernels kernels_avx2;
}

#if defined(__clang__)
#pragma clang attribute push(                                                    \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,fma"))), \
    apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false positives in GCC 12's headers
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c,fma,prefer-vector-width=512")
#endif
#define ANYACCEL_SHM_SET avx512
#define ANYACCEL_SHM_AVX512 1
#define ANYACCEL_SHM_INTEGERS_OF kernels_avx2
#include "comm/shm/reduce_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

namespace anyaccel::ops::shm {
extern const Kernels kernels_avx512;
const Kernels kernels_avx512{"avx512", &avx512::reduce_all};
}  // namespace anyaccel::ops::shm
#endif
