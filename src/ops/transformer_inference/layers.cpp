// Norms, matrix products and activations of injected layers.
#include "ops/transformer_inference/layers.h"

#include "ATen/ops/addmm.h"
#include "ATen/ops/gelu.h"
#include "ATen/ops/layer_norm.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/mean.h"
#include "ATen/ops/relu.h"
#include "ATen/ops/rsqrt.h"
#include "ATen/ops/silu.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {
namespace {

/// Converts to float32, unless the tensor is float64.
Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

Tensor wide_sum(const Tensor& x, const OptionalTensor& bias, const Tensor& residual) {
  const Tensor sum = wide(x) + residual;
  return bias && bias->defined() ? sum + *bias : sum;
}

Tensor wide_layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return at::layer_norm_symint(x, {x.sym_size(-1)}, gamma.to(x.scalar_type()),
                               beta.to(x.scalar_type()), epsilon);
}

Tensor wide_rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  return x * at::rsqrt(at::mean(x * x, {-1}, true) + epsilon) * gamma;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return wide_layer_norm(wide(x), gamma, beta, epsilon).to(x.scalar_type());
}

Tensor layer_norm_residual(const Tensor& x, const OptionalTensor& bias, const Tensor& residual,
                           const Tensor& gamma, const Tensor& beta, double epsilon) {
  return wide_layer_norm(wide_sum(x, bias, residual), gamma, beta, epsilon).to(x.scalar_type());
}

std::tuple<Tensor, Tensor> layer_norm_residual_store(const Tensor& x, const OptionalTensor& bias,
                                                     const Tensor& residual, const Tensor& gamma,
                                                     const Tensor& beta, double epsilon) {
  const Tensor sum = wide_sum(x, bias, residual);
  return {wide_layer_norm(sum, gamma, beta, epsilon).to(x.scalar_type()),
          sum.to(x.scalar_type(), false, true)};
}

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  return wide_rms_norm(wide(x), gamma, epsilon).to(x.scalar_type());
}

std::tuple<Tensor, Tensor> pre_rms_norm(const Tensor& x, const Tensor& residual,
                                        const Tensor& gamma, double epsilon) {
  const Tensor sum = wide_sum(x, {}, residual);
  return {wide_rms_norm(sum, gamma, epsilon).to(x.scalar_type()),
          sum.to(x.scalar_type(), false, true)};
}

Tensor dequantize(const Tensor& weight, const Tensor& scale, std::int64_t groups,
                  at::ScalarType dtype) {
  constexpr const char* where = "dequantize";
  if (weight.scalar_type() != at::kChar || weight.dim() != 2)
    fail_argument(where, "the weights have the wrong shape or dtype", words(weight),
                  "int8 [outputs, inputs]");
  if (groups < 1 || weight.sym_size(0) % groups != 0 || scale.sym_numel() < groups)
    fail_argument(where, "the groups do not match the scales or the weights",
                  c10::str(groups, " groups, scales ", words(scale), ", weights ", words(weight)),
                  "a scale for each group, and groups of equal size");
  const Tensor rows =
      weight.reshape_symint({groups, weight.sym_size(0) / groups, weight.sym_size(1)})
          .to(at::kFloat);
  const Tensor scales = scale.reshape({-1}).slice(0, 0, groups).to(at::kFloat).view({groups, 1, 1});
  return (rows * scales).view_symint(weight.sym_sizes()).to(dtype);
}

Tensor product(const char* where, const Tensor& x, const GivenMatrix& matrix,
               const OptionalTensor& bias) {
  const Tensor weight =
      matrix.int8
          ? dequantize(matrix.weight, matrix.scale,
                       matrix.scale.sym_numel().guard_int(__FILE__, __LINE__), x.scalar_type())
          : matrix.weight;
  const Tensor inputs_first = matrix.int8 || matrix.transposed ? weight.t() : weight;
  if (x.dim() < 1 || weight.dim() != 2 || x.sym_size(-1) != inputs_first.sym_size(0) ||
      x.scalar_type() != weight.scalar_type())
    fail_argument(where, "the shapes or dtypes of activations and weights do not match",
                  c10::str(words(x), " and ", words(weight)),
                  "equal dtypes, and as many channels as the weights have inputs");
  if (takes_skinny_gemm(x, weight, matrix.int8 || matrix.transposed)) {
    const Tensor out = skinny_gemm(x, weight, matrix.int8 || matrix.transposed);
    return bias && bias->defined() ? (wide(out) + *bias).to(x.scalar_type()) : out;
  }
  if (!bias || !bias->defined()) return at::matmul(x, inputs_first);
  auto sizes = x.sym_sizes().vec();
  const auto inputs = sizes.back();
  sizes.back() = inputs_first.sym_size(1);
  return at::addmm(*bias, x.reshape_symint({-1, inputs}), inputs_first).view_symint(sizes);
}

Tensor activate(const char* where, const Tensor& x, const OptionalTensor& bias,
                Activation activation) {
  const Tensor sum = bias && bias->defined() ? wide(x) + *bias : wide(x);
  const auto gated = [&](auto function) {
    if (x.sym_size(-1) % 2 != 0)
      fail_argument(where, "the number of channels is odd", words(x), "an even number of channels");
    const auto half = sum.sym_size(-1) / 2;
    return (sum.slice_symint(-1, 0, half) * function(sum.slice_symint(-1, half)))
        .to(x.scalar_type());
  };
  switch (activation) {
    case Activation::gelu: return at::gelu(sum, "tanh").to(x.scalar_type());
    case Activation::relu: return at::relu(sum).to(x.scalar_type());
    case Activation::gated_gelu: return gated([](const Tensor& gate) { return at::gelu(gate); });
    case Activation::gated_silu: return gated([](const Tensor& gate) { return at::silu(gate); });
  }
  fail_argument(where, "unknown activation", std::to_string(static_cast<std::int64_t>(activation)),
                "1 (gelu), 2 (relu), 3 (gated gelu) or 4 (gated silu)");
}

}  // namespace anyaccel::ops
