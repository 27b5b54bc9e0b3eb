#include <ATen/ops/_log_softmax_backward_data_native.h>
#include <ATen/ops/_log_softmax_native.h>
#include <ATen/ops/_softmax_backward_data_native.h>
#include <ATen/ops/_softmax_native.h>
#include <ATen/ops/cumsum_native.h>
#include <ATen/ops/linalg_vector_norm_native.h>
#include <ATen/ops/mean_native.h>
#include <ATen/ops/nll_loss_backward_native.h>
#include <ATen/ops/nll_loss_forward_native.h>
#include <ATen/ops/sum_native.h>

#include "backends/cpu/graph/structured_step.h"

namespace anyaccel::backends::cpu {

c10::ArrayRef<FastOp> reduction_ops() {
  using at::Scalar;
  using at::ScalarType;
  using at::Tensor;
  using std::int64_t;
  using Weight = std::optional<Tensor>;
  using Dtype = std::optional<ScalarType>;
  using namespace at::native;  // NOLINT: the table is a list of their names
  static constexpr FastOp table[] = {
      {"sum.dim_IntList sum.IntList_out",
       structured<structured_sum_out, Tensor, OptionalDims, bool, Dtype>},
      {"mean.dim mean.out", structured<structured_mean_out, Tensor, OptionalDims, bool, Dtype>},
      {"linalg_vector_norm linalg_vector_norm.out",
       structured<structured_linalg_vector_norm_out, Tensor, Scalar, OptionalDims, bool, Dtype>},
      {"cumsum cumsum.out", structured<structured_cumsum_out, Tensor, int64_t, Dtype>},
      {"_softmax", structured<structured_softmax_cpu_out, Tensor, int64_t, bool>},
      {"_log_softmax", structured<structured_log_softmax_cpu_out, Tensor, int64_t, bool>},
      {"_softmax_backward_data",
       structured<structured_softmax_backward_cpu_out, Tensor, Tensor, int64_t, ScalarType>},
      {"_log_softmax_backward_data",
       structured<structured_log_softmax_backward_cpu_out, Tensor, Tensor, int64_t, ScalarType>},
      {"nll_loss_forward", &StructuredStep<structured_nll_loss_forward_out_cpu, 2, Tensor, Tensor,
                                           Weight, int64_t, int64_t>::make},
      {"nll_loss_backward", structured<structured_nll_loss_backward_out_cpu, Tensor, Tensor, Tensor,
                                       Weight, int64_t, int64_t, Tensor>},
  };
  return table;
}

}  // namespace anyaccel::backends::cpu
