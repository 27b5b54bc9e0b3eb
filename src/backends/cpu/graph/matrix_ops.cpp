#include <ATen/ops/addmm_native.h>
#include <ATen/ops/baddbmm_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/mm_native.h>

#include "backends/cpu/graph/structured_step.h"

namespace anyaccel::backends::cpu {

c10::ArrayRef<FastOp> matrix_ops() {
  using at::Scalar;
  using at::Tensor;
  using namespace at::native;  // NOLINT: the table is a list of their names
  static constexpr FastOp table[] = {
      {"mm mm.out", structured<structured_mm_out_cpu, Tensor, Tensor>},
      {"addmm addmm_ addmm.out",
       structured<structured_addmm_out_cpu, Tensor, Tensor, Tensor, Scalar, Scalar>},
      {"bmm bmm.out", structured<structured_bmm_out_cpu, Tensor, Tensor>},
      {"baddbmm baddbmm_ baddbmm.out",
       structured<structured_baddbmm_out_cpu, Tensor, Tensor, Tensor, Scalar, Scalar>},
  };
  return table;
}

}  // namespace anyaccel::backends::cpu
