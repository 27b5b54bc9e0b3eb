// The ops that work on integer matrices, where there are such ops for their device; else callers go
// their way through LibTorch's.
#pragma once

#include <optional>

#include "llm/quantize/linear.h"

namespace anyaccel::llm {

/// Whether the functions below can be called for matrices on this tensor's device. Loads the op
/// when it is first asked; what hinders that is told in a warning, once. Thread-safe.
bool has_integer_ops(const at::Tensor& on);

/// As quantize(), of a contiguous float32, bfloat16 or float16 matrix.
QuantizedMatrix quantize_by_op(const at::Tensor& weight, int bits, std::int64_t group);
/// Rows [begin, begin + count) as `dtype`.
at::Tensor dequantize_by_op(const at::Tensor& weight, const Scales& scales, std::int64_t begin,
                            std::int64_t count, c10::ScalarType dtype);
/// x weight^T + bias, reading the integers; for few rows.
at::Tensor linear_by_op(const at::Tensor& x, const at::Tensor& weight, const Scales& scales,
                        const at::Tensor& bias);

}  // namespace anyaccel::llm
