// Data types: what a device can really do with each one.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "anyaccel/export.h"

namespace anyaccel {

/// What one device does with one data type. All false means that tensors of it cannot be made.
struct DtypeSupport {
  bool storable = false;    ///< tensors can be allocated, copied and converted
  bool computable = false;  ///< elementwise and matrix operations exist
  bool fast = false;        ///< the hardware has instructions for it; false: emulated or upcast
  bool reducible = false;   ///< the default communication backend can all-reduce it
};

/// One row of `Accelerator::dtype_table()`.
struct DtypeRow {
  c10::ScalarType dtype;
  DtypeSupport support;
};

/// Python's name of a type without "torch.", for example "bfloat16". Never null.
ANYACCEL_API const char* dtype_name(c10::ScalarType dtype) noexcept;

/// Reads "fp32", "float32", "float", "bf16", "bfloat16", "fp16", "float16", "half", "fp64",
/// "float64", "double". Throws `invalid_argument` with the names that are known.
ANYACCEL_API c10::ScalarType parse_dtype(const std::string& text);

}  // namespace anyaccel
