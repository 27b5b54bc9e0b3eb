// Registers torch.ops.anyaccel.inference_core_*: the steps of DeepSpeed's inference v2 between its
// ragged kernels. Each op writes its result to an argument and is composed of torch operations, so
// it works on every device and for meta tensors.
#include "ATen/TensorOperators.h"
#include "ATen/core/Tensor.h"
#include "ATen/ops/gelu.h"
#include "ATen/ops/layer_norm.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/mean.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/relu.h"
#include "ATen/ops/rsqrt.h"
#include "ATen/ops/silu.h"
#include "ops/shared/skinny_gemm_tensor.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

/// The values are the same as in DeepSpeed's ActivationType. gelu is the tanh approximation.
enum class Activation : std::int64_t { gelu = 0, relu, silu, geglu, reglu, siglu, identity };

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

void check_like(const char* where, const Tensor& out, const Tensor& x) {
  if (out.dim() != x.dim() || out.scalar_type() != x.scalar_type() ||
      out.sym_sizes() != x.sym_sizes())
    fail_argument(where, "the result has the wrong shape or dtype", words(out), words(x));
}

Tensor normalized(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return at::layer_norm_symint(x, {x.sym_size(-1)}, gamma.to(x.scalar_type()),
                               beta.to(x.scalar_type()), epsilon);
}

Tensor rms(const Tensor& x, const Tensor& gamma, double epsilon) {
  return x * at::rsqrt(at::mean(x * x, {-1}, true) + epsilon) * gamma;
}

void layer_norm(const Tensor& out, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                double epsilon) {
  check_like("layer_norm", out, x);
  out.copy_(normalized(wide(x), gamma, beta, epsilon));
}

void post_layer_norm(const Tensor& out, const Tensor& x, const Tensor& residual,
                     const Tensor& gamma, const Tensor& beta, double epsilon) {
  check_like("post_layer_norm", out, x);
  out.copy_(normalized(wide(x) + residual, gamma, beta, epsilon));
}

void pre_layer_norm(const Tensor& sum_out, const Tensor& norm_out, const Tensor& x,
                    const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                    double epsilon) {
  check_like("pre_layer_norm", sum_out, x);
  check_like("pre_layer_norm", norm_out, x);
  const Tensor sum = wide(x) + residual;
  norm_out.copy_(normalized(sum, gamma, beta, epsilon));
  sum_out.copy_(sum);
}

void rms_norm(const Tensor& out, const Tensor& x, const Tensor& gamma, double epsilon) {
  check_like("rms_norm", out, x);
  out.copy_(rms(wide(x), gamma, epsilon));
}

void rms_pre_norm(const Tensor& norm_out, const Tensor& sum_out, const Tensor& x,
                  const Tensor& residual, const Tensor& gamma, double epsilon) {
  check_like("rms_pre_norm", sum_out, x);
  check_like("rms_pre_norm", norm_out, x);
  const Tensor sum = wide(x) + residual;
  norm_out.copy_(rms(sum, gamma, epsilon));
  sum_out.copy_(sum);
}

Tensor activated(const char* where, const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
    case Activation::geglu: return at::gelu(x, "tanh");
    case Activation::relu:
    case Activation::reglu: return at::relu(x);
    case Activation::silu:
    case Activation::siglu: return at::silu(x);
    case Activation::identity: return x;
  }
  fail_argument(where, "unknown activation", std::to_string(static_cast<std::int64_t>(activation)),
                "0 to 6");
}

Tensor with_bias(const Tensor& x, const OptionalTensor& bias) {
  return bias && bias->defined() ? wide(x) + *bias : wide(x);
}

void bias_activation(const Tensor& x, const OptionalTensor& bias, std::int64_t activation) {
  constexpr const char* where = "bias_activation";
  const auto kind = static_cast<Activation>(activation);
  if (kind == Activation::geglu || kind == Activation::reglu || kind == Activation::siglu)
    fail_argument(where, "the activation is gated", std::to_string(activation), "0, 1, 2 or 6",
                  "use gated_activation");
  x.copy_(activated(where, with_bias(x, bias), kind));
}

void gated_activation(const Tensor& out, const Tensor& x, const OptionalTensor& bias,
                      std::int64_t activation) {
  constexpr const char* where = "gated_activation";
  const auto kind = static_cast<Activation>(activation);
  if (kind != Activation::geglu && kind != Activation::reglu && kind != Activation::siglu)
    fail_argument(where, "the activation is not gated", std::to_string(activation), "3, 4 or 5");
  if (x.dim() != out.dim() || x.dim() < 1 || x.sym_size(-1) != out.sym_size(-1) * 2)
    fail_argument(where, "the shapes of the input and the result do not match",
                  c10::str(words(x), " and ", words(out)),
                  "twice as many channels in the input as in the result");
  const Tensor sum = with_bias(x, bias);
  // Gates and channels alternate, starting with a gate.
  out.copy_(activated(where, sum.slice(-1, 0, std::nullopt, 2), kind) *
            sum.slice(-1, 1, std::nullopt, 2));
}

void blas_linear(const Tensor& out, const Tensor& x, const Tensor& weights) {
  if (weights.dim() != 2 || x.dim() < 2 || out.dim() < 2 || x.sym_size(-1) != weights.sym_size(1) ||
      out.sym_size(-1) != weights.sym_size(0) || x.scalar_type() != weights.scalar_type() ||
      out.sym_numel() * weights.sym_size(1) != x.sym_numel() * weights.sym_size(0))
    fail_argument("blas_linear", "the shapes or dtypes of the tensors do not match",
                  c10::str(words(out), ", ", words(x), ", ", words(weights)),
                  "[*, outputs], [*, inputs] and [outputs, inputs] with the same dtype");
  if (x.dim() == 2 && out.dim() == 2 && out.scalar_type() == x.scalar_type())
    at::mm_out(const_cast<Tensor&>(out), x, weights.t());
  else
    out.copy_(at::linear(x, weights).view_symint(out.sym_sizes()));
}

/// For a few rows, uses matrix products that read the weights at memory bandwidth.
void blas_linear_cpu(const Tensor& out, const Tensor& x, const Tensor& weights) {
  const auto type = weights.scalar_type();
  const bool few = weights.dim() == 2 && weights.is_contiguous() &&
                   weights.numel() >= min_skinny_gemm_weights &&
                   (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
                   x.scalar_type() == type && x.dim() > 1 && x.size(-1) == weights.size(1) &&
                   x.numel() <= max_few_wide_rows * weights.size(1) && out.dim() > 1 &&
                   out.size(-1) == weights.size(0) &&
                   out.numel() * weights.size(1) == x.numel() * weights.size(0);
  if (!few) return blas_linear(out, x, weights);
  const Tensor rows =
      x.reshape({x.numel() / weights.size(1), weights.size(1)}).to(at::kFloat).contiguous();
  const Tensor wide_out = empty(out.sizes(), at::TensorOptions(at::kFloat));
  if (rows.size(0) > 0)
    multiply_skinny_gemm(weights, rows, element_of("blas_linear", "the weights", weights),
                         wide_out.mutable_data_ptr<float>());
  out.copy_(wide_out);
}

void blas_4d_matmul(const Tensor& out, const Tensor& b, const Tensor& a) {
  out.copy_(at::matmul(b, a));
}

#define OP(name) "inference_core_" name

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(OP("layer_norm(Tensor(a!) out, Tensor input, Tensor gamma, Tensor beta, float epsilon) -> "
           "()"),
        layer_norm);
  m.def(OP("post_layer_norm(Tensor(a!) out, Tensor input, Tensor residual, Tensor gamma, Tensor "
           "beta, float epsilon) "
           "-> ()"),
        post_layer_norm);
  m.def(OP("pre_layer_norm(Tensor(a!) res_out, Tensor(b!) norm_out, Tensor input, Tensor residual, "
           "Tensor gamma, "
           "Tensor beta, float epsilon) -> ()"),
        pre_layer_norm);
  m.def(OP("rms_norm(Tensor(a!) out, Tensor input, Tensor gamma, float epsilon) -> ()"), rms_norm);
  m.def(OP("rms_pre_norm(Tensor(a!) norm_out, Tensor(b!) res_out, Tensor input, Tensor residual, "
           "Tensor gamma, "
           "float epsilon) -> ()"),
        rms_pre_norm);
  m.def(OP("bias_activation(Tensor(a!) activation, Tensor? bias, int activation_type) -> ()"),
        bias_activation);
  m.def(
      OP("gated_activation(Tensor(a!) out, Tensor input, Tensor? bias, int activation_type) -> ()"),
      gated_activation);
  m.def(OP("blas_linear(Tensor(a!) out, Tensor hidden_states, Tensor weights) -> ()"));
  m.def(OP("blas_4d_matmul(Tensor(a!) out, Tensor b, Tensor a) -> ()"), blas_4d_matmul);
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl(OP("blas_linear"), blas_linear_cpu); }
TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl(OP("blas_linear"), blas_linear);
}

}  // namespace
}  // namespace anyaccel::ops
