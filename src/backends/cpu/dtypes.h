// Data types that the CPU backend supports.
#pragma once

#include "anyaccel/dtype.h"

namespace anyaccel::backends::cpu {

/// Dtypes that torch's CPU kernels and this CPU support. Queries oneDNN on the first call.
/// Thread-safe.
DtypeSupport dtype_support(c10::ScalarType dtype);

}  // namespace anyaccel::backends::cpu
