// Steps of an injected transformer layer. They are composed of torch operations, so they work on
// every device, with meta tensors and with autograd. Sums of 16-bit types accumulate in float32 and
// are rounded once. Weights are [inputs, outputs], or [outputs, inputs] with `transposed`. int8
// weights are [outputs, inputs] with one scale per group of rows.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "ATen/TensorOperators.h"
#include "ATen/core/Tensor.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// The values are the same as in deepspeed.utils.types.ActivationFuncType. `gelu` is the tanh
/// approximation; `gated_gelu` uses erf.
enum class Activation : std::int64_t { gelu = 1, relu = 2, gated_gelu = 3, gated_silu = 4 };

/// A matrix that is passed as an argument.
struct GivenMatrix {
  const Tensor& weight;
  const Tensor& scale;
  bool int8;
  bool transposed;
};

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon);
Tensor layer_norm_residual(const Tensor& x, const OptionalTensor& bias, const Tensor& residual,
                           const Tensor& gamma, const Tensor& beta, double epsilon);
/// Returns the norm and the sum that was normalized.
std::tuple<Tensor, Tensor> layer_norm_residual_store(const Tensor& x, const OptionalTensor& bias,
                                                     const Tensor& residual, const Tensor& gamma,
                                                     const Tensor& beta, double epsilon);
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon);
std::tuple<Tensor, Tensor> pre_rms_norm(const Tensor& x, const Tensor& residual,
                                        const Tensor& gamma, double epsilon);

/// Returns the weight [outputs, inputs] in `dtype`.
Tensor dequantize(const Tensor& weight, const Tensor& scale, std::int64_t groups,
                  at::ScalarType dtype);
/// Returns whether skinny_gemm() is the faster way to multiply x by this weight. This is the case
/// for a few rows and a large weight in host memory, if no gradient is required. The weight is
/// [inputs, outputs], or [outputs, inputs] with `transposed`.
bool takes_skinny_gemm(const Tensor& x, const Tensor& weight, bool transposed);
Tensor skinny_gemm(const Tensor& x, const Tensor& weight, bool transposed);
Tensor product(const char* where, const Tensor& x, const GivenMatrix& matrix,
               const OptionalTensor& bias = {});

/// Returns act(x + bias). A gated activation returns the product of the first half of the channels
/// and act(second half).
Tensor activate(const char* where, const Tensor& x, const OptionalTensor& bias,
                Activation activation);

}  // namespace anyaccel::ops
