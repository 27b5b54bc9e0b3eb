// The floating-point loops for aarch64 with bfloat16 conversions, which are called only if the CPU
// supports them. Integer reductions use the baseline loops. Empty on other architectures.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "comm/shm/reduce.h"

namespace anyaccel::ops::shm {
extern const Kernels kernels_baseline;
}

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=armv8.2-a+bf16"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+bf16")
#endif
#define ANYACCEL_SHM_SET neon_bf16
#define ANYACCEL_SHM_NEON_BF16 1
#define ANYACCEL_SHM_INTEGERS_OF kernels_baseline
#include "comm/shm/reduce_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

namespace anyaccel::ops::shm {
extern const Kernels kernels_neon_bf16;
const Kernels kernels_neon_bf16{"neon_bf16", &neon_bf16::reduce_all};
}  // namespace anyaccel::ops::shm
#endif
