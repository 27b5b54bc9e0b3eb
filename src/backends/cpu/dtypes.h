// What the CPU does with each data type.
#pragma once

#include "anyaccel/dtype.h"

namespace anyaccel::backends::cpu {

/// Truth of torch's CPU kernels and of this CPU. Asks oneDNN at the first call. Thread-safe.
DtypeSupport dtype_support(c10::ScalarType dtype);

}  // namespace anyaccel::backends::cpu
