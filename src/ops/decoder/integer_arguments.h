// Checked arguments and results of the ops on integer matrices, on any device.
#pragma once

#include <tuple>

#include "ops/decoder/arguments.h"

namespace anyaccel::ops {

using Arguments = std::optional<Tensor>;

/// Uninitialized integer matrix and scales for `weight`. Throws c10::ValueError if `weight` cannot
/// be quantized this way.
std::tuple<Tensor, Tensor> quantized_like(const Tensor& weight, std::int64_t bits,
                                          std::int64_t group);

/// Uninitialized tensor for `count` rows of floats.
Tensor dequantized_like(const Tensor& weight, std::int64_t count, at::ScalarType dtype);
/// The matrix of `weight`, which must have the rows [begin, begin + count).
Matrix dequantize_arguments(const Tensor& weight, const Tensor& scales, const Arguments& zeros,
                            std::int64_t begin, std::int64_t count);

/// Uninitialized tensor [..., outputs] of x's dtype.
Tensor product_like(const Tensor& x, const Tensor& weight);

/// x weight^T, in float32 until the bias is added.
struct LinearArguments {
  Matrix matrix;
  Tensor x, out;  ///< float32
  std::int64_t rows;
};
LinearArguments linear_arguments(const Tensor& x, const Tensor& weight, const Arguments& scales,
                                 const Arguments& zeros, const Arguments& bias);
/// The result in the dtype of `x`.
Tensor linear_result(const LinearArguments& arguments, const Tensor& x, const Arguments& bias);

}  // namespace anyaccel::ops
