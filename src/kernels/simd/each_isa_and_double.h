// Includes each_isa.h, and compiles ANYACCEL_KERNEL once more in the namespace anyaccel::ops::fp64,
// where `Real` is double and ANYACCEL_DOUBLE is true. These kernels are accurate enough for
// gradcheck. IWYU pragma: private
#include "kernels/simd/each_isa.h"

#define ANYACCEL_ISA fp64
#include ANYACCEL_KERNEL
#include "kernels/simd/next_isa.h"
