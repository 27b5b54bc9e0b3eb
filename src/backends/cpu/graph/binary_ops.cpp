#include <ATen/ops/add_native.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/eq_native.h>
#include <ATen/ops/gelu_backward_native.h>
#include <ATen/ops/lerp_native.h>
#include <ATen/ops/maximum_native.h>
#include <ATen/ops/minimum_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/ne_native.h>
#include <ATen/ops/sigmoid_backward_native.h>
#include <ATen/ops/silu_backward_native.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/tanh_backward_native.h>
#include <ATen/ops/threshold_backward_native.h>

#include "backends/cpu/graph/structured_step.h"

namespace anyaccel::backends::cpu {

c10::ArrayRef<FastOp> binary_ops() {
  using at::Scalar;
  using at::Tensor;
  using namespace at::native;  // NOLINT: the table is a list of their names
  static constexpr FastOp table[] = {
      {"add.Tensor add_.Tensor add.out",
       structured<structured_ufunc_add_CPU, Tensor, Tensor, Scalar>},
      {"sub.Tensor sub_.Tensor sub.out", structured<structured_sub_out, Tensor, Tensor, Scalar>},
      {"mul.Tensor mul_.Tensor mul.out", structured<structured_mul_out, Tensor, Tensor>},
      {"div.Tensor div_.Tensor div.out", structured<structured_div_out, Tensor, Tensor>},
      {"maximum maximum.out", structured<structured_maximum_out, Tensor, Tensor>},
      {"minimum minimum.out", structured<structured_minimum_out, Tensor, Tensor>},
      {"eq.Tensor eq.Tensor_out", structured<structured_eq_Tensor_out, Tensor, Tensor>},
      {"ne.Tensor ne.Tensor_out", structured<structured_ne_Tensor_out, Tensor, Tensor>},
      {"lerp.Scalar lerp_.Scalar lerp.Scalar_out",
       structured<structured_lerp_Scalar, Tensor, Tensor, Scalar>},
      {"lerp.Tensor lerp_.Tensor lerp.Tensor_out",
       structured<structured_lerp_Tensor, Tensor, Tensor, Tensor>},
      {"addcmul addcmul_ addcmul.out",
       structured<structured_addcmul_out, Tensor, Tensor, Tensor, Scalar>},
      {"addcdiv addcdiv_ addcdiv.out",
       structured<structured_addcdiv_out, Tensor, Tensor, Tensor, Scalar>},
      {"tanh_backward", structured<structured_tanh_backward_out, Tensor, Tensor>},
      {"sigmoid_backward", structured<structured_sigmoid_backward_out, Tensor, Tensor>},
      {"silu_backward", structured<structured_silu_backward_out, Tensor, Tensor>},
      {"gelu_backward", structured<structured_gelu_backward_out_cpu, Tensor, Tensor, std::string>},
      {"threshold_backward", structured<structured_threshold_backward_out, Tensor, Tensor, Scalar>},
  };
  return table;
}

}  // namespace anyaccel::backends::cpu
