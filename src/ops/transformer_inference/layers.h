// The pieces of an injected transformer layer, in torch's operations: they work on every device, on
// shapes alone, and have gradients. What is half as wide as a float is widened for sums and rounded
// once. Weights are [inputs, outputs], or turned with `transposed`; int8 weights are [outputs,
// inputs] with a scale for each group of their rows.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "ATen/TensorOperators.h"
#include "ATen/core/Tensor.h"

namespace anyaccel::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// As deepspeed.utils.types.ActivationFuncType numbers them. `gelu` is the one with tanh, the
/// gate's the one with erf.
enum class Activation : std::int64_t { gelu = 1, relu = 2, gated_gelu = 3, gated_silu = 4 };

/// A matrix as it is given to a function.
struct GivenMatrix {
  const Tensor& weight;
  const Tensor& scale;
  bool int8;
  bool transposed;
};

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon);
Tensor layer_norm_residual(const Tensor& x, const OptionalTensor& bias, const Tensor& residual,
                           const Tensor& gamma, const Tensor& beta, double epsilon);
/// The norm, and the sum that was normalized.
std::tuple<Tensor, Tensor> layer_norm_residual_store(const Tensor& x, const OptionalTensor& bias,
                                                     const Tensor& residual, const Tensor& gamma,
                                                     const Tensor& beta, double epsilon);
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon);
std::tuple<Tensor, Tensor> pre_rms_norm(const Tensor& x, const Tensor& residual,
                                        const Tensor& gamma, double epsilon);

/// [outputs, inputs] as `dtype`.
Tensor dequantize(const Tensor& weight, const Tensor& scale, std::int64_t groups,
                  at::ScalarType dtype);
/// Whether skinny_gemm() is the better way for x times such a weight ([inputs, outputs], or
/// turned): few rows, a large weight of the host, and nobody wants a gradient.
bool takes_skinny_gemm(const Tensor& x, const Tensor& weight, bool transposed);
Tensor skinny_gemm(const Tensor& x, const Tensor& weight, bool transposed);
Tensor product(const char* where, const Tensor& x, const GivenMatrix& matrix,
               const OptionalTensor& bias = {});

/// act(x + bias); of the gated ones the first half of the channels times act(the second half).
Tensor activate(const char* where, const Tensor& x, const OptionalTensor& bias,
                Activation activation);

}  // namespace anyaccel::ops
