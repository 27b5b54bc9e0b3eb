// What the ops on integer matrices are given and give, checked, on any device.
#pragma once

#include <tuple>

#include "ops/decoder/arguments.h"

namespace anyaccel::ops {

using Arguments = std::optional<Tensor>;

/// An integer matrix and the scales that it needs, not filled; throws c10::ValueError where it cannot be had of `weight`.
std::tuple<Tensor, Tensor> quantized_like(const Tensor& weight, std::int64_t bits, std::int64_t group);

/// `count` rows as floats, not filled.
Tensor dequantized_like(const Tensor& weight, std::int64_t count, at::ScalarType dtype);
/// The matrix whose rows [begin, begin + count) are asked for.
Matrix dequantize_arguments(const Tensor& weight, const Tensor& scales, const Arguments& zeros, std::int64_t begin,
                            std::int64_t count);

/// [..., outputs] of x's dtype, not filled.
Tensor product_like(const Tensor& x, const Tensor& weight);

/// x weight^T, in float32 until the bias is added.
struct LinearArguments {
  Matrix matrix;
  Tensor x, out;  ///< float32
  std::int64_t rows;
};
LinearArguments linear_arguments(const Tensor& x, const Tensor& weight, const Arguments& scales, const Arguments& zeros,
                                 const Arguments& bias);
/// The result in the dtype of `x`.
Tensor linear_result(const LinearArguments& arguments, const Tensor& x, const Arguments& bias);

}  // namespace anyaccel::ops
