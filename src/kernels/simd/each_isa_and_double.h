// As each_isa.h, with ANYACCEL_REAL a float there; and once more in the namespace anyaccel::ops::fp64, where ANYACCEL_REAL and what a `Vec`
// holds are doubles and ANYACCEL_DOUBLE is defined: kernels that are exact enough for gradcheck. IWYU pragma: private
#define ANYACCEL_REAL float
#include "kernels/simd/each_isa.h"

#undef ANYACCEL_REAL
#define ANYACCEL_REAL double
#define ANYACCEL_DOUBLE
namespace anyaccel::ops::fp64 {
namespace {
#include "kernels/simd/vec_double.h"
}
#include ANYACCEL_KERNEL
}  // namespace anyaccel::ops::fp64
