// Does what each_isa.h does, and compiles ANYACCEL_KERNEL once more in the namespace
// anyaccel::ops::fp64, where `Real` is double and ANYACCEL_DOUBLE is true: kernels that are exact
// enough for gradcheck. IWYU pragma: private
#include "kernels/simd/each_isa.h"

#define ANYACCEL_ISA fp64
#include ANYACCEL_KERNEL
#include "kernels/simd/next_isa.h"
