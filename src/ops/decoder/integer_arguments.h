// Validated arguments and results for the ops on quantized matrices, on any device.
#pragma once

#include <tuple>

#include "ops/decoder/arguments.h"

namespace anyaccel::ops {

using Arguments = std::optional<Tensor>;

/// Returns an uninitialized quantized matrix and its scales for `weight`. Throws c10::ValueError if
/// `weight` cannot be quantized with these options.
std::tuple<Tensor, Tensor> quantized_like(const Tensor& weight, std::int64_t bits,
                                          std::int64_t group);

/// Returns an uninitialized floating-point tensor for `count` dequantized rows.
Tensor dequantized_like(const Tensor& weight, std::int64_t count, at::ScalarType dtype);
/// Converts `weight` to a Matrix. Throws c10::ValueError unless it has the rows [begin, begin +
/// count).
Matrix dequantize_arguments(const Tensor& weight, const Tensor& scales, const Arguments& zeros,
                            std::int64_t begin, std::int64_t count);

/// Returns an uninitialized tensor [..., outputs] with the dtype of `x`.
Tensor product_like(const Tensor& x, const Tensor& weight);

/// The product x * weight^T, which is float32 until the bias is added.
struct LinearArguments {
  Matrix matrix;
  Tensor x, out;  ///< float32
  std::int64_t rows;
};
LinearArguments linear_arguments(const Tensor& x, const Tensor& weight, const Arguments& scales,
                                 const Arguments& zeros, const Arguments& bias);
/// Adds the bias and returns the result in the dtype of `x`.
Tensor linear_result(const LinearArguments& arguments, const Tensor& x, const Arguments& bias);

}  // namespace anyaccel::ops
