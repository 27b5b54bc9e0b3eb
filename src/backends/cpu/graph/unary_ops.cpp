#include <ATen/ops/bitwise_not_native.h>
#include <ATen/ops/clamp_max_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/clamp_native.h>
#include <ATen/ops/cos_native.h>
#include <ATen/ops/erf_native.h>
#include <ATen/ops/exp_native.h>
#include <ATen/ops/gelu_native.h>
#include <ATen/ops/leaky_relu_native.h>
#include <ATen/ops/log_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/reciprocal_native.h>
#include <ATen/ops/rsqrt_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/silu_native.h>
#include <ATen/ops/sin_native.h>
#include <ATen/ops/sqrt_native.h>
#include <ATen/ops/tanh_native.h>

#include "backends/cpu/graph/structured_step.h"

namespace anyaccel::backends::cpu {
namespace {

using at::Scalar;
using at::Tensor;

// torch defines relu as the maximum with zero.
std::unique_ptr<Step> make_relu(c10::ArrayRef<c10::IValue> args, c10::ArrayRef<Tensor> outputs) {
  const std::array<c10::IValue, 2> with_zero = {args[0], Scalar(0)};
  return structured<at::native::structured_clamp_min_out, Tensor, Scalar>(with_zero, outputs);
}

}  // namespace

c10::ArrayRef<FastOp> unary_ops() {
  using namespace at::native;  // NOLINT: the table is a list of their names
  static constexpr FastOp table[] = {
      {"relu relu_", &make_relu},
      {"tanh tanh_ tanh.out", structured<structured_tanh_out, Tensor>},
      {"sigmoid sigmoid_ sigmoid.out", structured<structured_sigmoid_out, Tensor>},
      {"silu silu_ silu.out", structured<structured_silu_out, Tensor>},
      {"gelu gelu_ gelu.out", structured<structured_gelu_out_cpu, Tensor, std::string>},
      {"leaky_relu leaky_relu_ leaky_relu.out",
       structured<structured_leaky_relu_out, Tensor, Scalar>},
      {"rsqrt rsqrt_ rsqrt.out", structured<structured_rsqrt_out, Tensor>},
      {"sqrt sqrt_ sqrt.out", structured<structured_sqrt_out, Tensor>},
      {"reciprocal reciprocal_ reciprocal.out", structured<structured_reciprocal_out, Tensor>},
      {"exp exp_ exp.out", structured<structured_exp_out, Tensor>},
      {"log log_ log.out", structured<structured_log_out, Tensor>},
      {"erf erf_ erf.out", structured<structured_erf_out, Tensor>},
      {"neg neg_ neg.out", structured<structured_neg_out, Tensor>},
      {"sin sin_ sin.out", structured<structured_sin_out, Tensor>},
      {"cos cos_ cos.out", structured<structured_cos_out, Tensor>},
      {"bitwise_not bitwise_not_ bitwise_not.out", structured<structured_bitwise_not_out, Tensor>},
      {"pow.Tensor_Scalar pow_.Scalar pow.Tensor_Scalar_out",
       structured<structured_pow_Tensor_Scalar_out, Tensor, Scalar>},
      {"clamp_min clamp_min_ clamp_min.out", structured<structured_clamp_min_out, Tensor, Scalar>},
      {"clamp_max clamp_max_ clamp_max.out", structured<structured_clamp_max_out, Tensor, Scalar>},
      {"clamp clamp_ clamp.out",
       structured<structured_clamp_out, Tensor, std::optional<Scalar>, std::optional<Scalar>>},
  };
  return table;
}

}  // namespace anyaccel::backends::cpu
