// Data types and how well a device supports each of them.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// How well one device supports one dtype. If all members are false, the device cannot hold tensors
/// of this dtype.
struct DtypeSupport {
  bool storable = false;    ///< tensors can be allocated, copied and converted
  bool computable = false;  ///< elementwise ops and matrix products are supported
  bool fast = false;  ///< the hardware has instructions for it; false if it is emulated or upcast
  bool reducible = false;  ///< the default communication backend can all-reduce it
};

/// One row of `Accelerator::dtype_table()`.
struct DtypeRow {
  c10::ScalarType dtype;
  DtypeSupport support;
};

/// Return torch's Python name for a dtype, without "torch.", for example "bfloat16". Never null.
ANYACCEL_API const char* dtype_name(c10::ScalarType dtype) noexcept;

/// Parse the name of a floating-point dtype: "fp32", "float32", "float", "bf16", "bfloat16",
/// "fp16", "float16", "half", "fp64", "float64" or "double". Throws `invalid_argument`, listing the
/// accepted names, for any other text.
ANYACCEL_API c10::ScalarType parse_dtype(const std::string& text);

}  // namespace anyaccel
