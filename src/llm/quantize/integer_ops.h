// Ops on quantized matrices. On devices without them, callers use LibTorch's ops.
#pragma once

#include <optional>

#include "llm/quantize/linear.h"

namespace anyaccel::llm {

/// Returns whether the functions below support this tensor's device. Loads the ops on the first
/// call and logs a warning if that fails. Thread-safe.
bool has_integer_ops(const at::Tensor& on);

/// Like quantize(), for a contiguous float32, bfloat16 or float16 matrix.
QuantizedMatrix quantize_by_op(const at::Tensor& weight, int bits, std::int64_t group);
/// Returns rows [begin, begin + count) as `dtype`.
at::Tensor dequantize_by_op(const at::Tensor& weight, const Scales& scales, std::int64_t begin,
                            std::int64_t count, c10::ScalarType dtype);
/// Computes x weight^T + bias directly from the quantized weight. Intended for a few rows.
at::Tensor linear_by_op(const at::Tensor& x, const at::Tensor& weight, const Scales& scales,
                        const at::Tensor& bias);

}  // namespace anyaccel::llm
