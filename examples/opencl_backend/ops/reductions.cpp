// Reductions: one work-group per result.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/sum_meta.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <bitset>

#include "ops/ops.h"

namespace ocl_backend {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

/// Argument of the kernel; opencl/reduce.cl declares the same structure.
struct Shape {
  cl_uint results = 0, terms = 0, kept_dims = 0, reduced_dims = 0;
  std::array<cl_uint, 8> kept_sizes{}, reduced_sizes{};
  std::array<cl_int, 8> kept_strides{}, reduced_strides{};
};

/// Reduces `dims` of `input` (all if empty) into `out`, which already has the right shape.
bool reduce(const char* kind, const Tensor& input, at::IntArrayRef dims, const Tensor& out) {
  if (input.dim() > 8 || input.numel() == 0 || !supported({input, out}) || !out.is_contiguous() ||
      input.numel() > std::numeric_limits<std::int32_t>::max())
    return false;
  std::bitset<8> reduced;
  for (const auto dim : dims)
    reduced.set(static_cast<std::size_t>(at::maybe_wrap_dim(dim, input.dim())));
  if (dims.empty()) reduced.set();
  Shape shape;
  shape.results = shape.terms = 1;
  for (std::int64_t d = input.dim() - 1; d >= 0; --d) {
    const bool is = reduced[static_cast<std::size_t>(d)];
    auto& count = is ? shape.reduced_dims : shape.kept_dims;
    (is ? shape.reduced_sizes : shape.kept_sizes)[count] = static_cast<cl_uint>(input.size(d));
    (is ? shape.reduced_strides : shape.kept_strides)[count] = static_cast<cl_int>(input.stride(d));
    ++count;
    (is ? shape.terms : shape.results) *= static_cast<cl_uint>(input.size(d));
  }
  const auto compute = std::string(compute_name(input.scalar_type()));
  const std::string defines = std::string("-DIN=") + type_name(input.scalar_type()) +
                              " -DOUT=" + type_name(out.scalar_type()) + " -DC=" + compute +
                              " -DKIND_" + kind;
  const c10::DeviceGuard guard(input.device());
  Launch(kernel("reduce.cl", "reduce", defines), input.device().index())
      .args(shape, ocl_backend::in(input), ocl_backend::out(out))
      .run(std::size_t{shape.results} * 64, 64);
  return true;
}

at::DimVector dims_of(OptionalIntArrayRef dims) {
  return dims ? at::DimVector(dims->begin(), dims->end()) : at::DimVector();
}

Tensor& sum(const Tensor& self, OptionalIntArrayRef dims, bool keep, std::optional<ScalarType> type,
            Tensor& out) {
  prepare<at::meta::structured_sum_dim_IntList>({out}, self, dims, keep, type);
  if (is_real_float(self) && is_real_float(out) &&
      (self.scalar_type() == at::kDouble) == (out.scalar_type() == at::kDouble) &&
      reduce("SUM", self, dims_of(dims), out))
    return out;
  return host_op<at::_ops::sum_IntList_out>(self, dims, keep, type, out);
}

Tensor& mean(const Tensor& self, OptionalIntArrayRef dims, bool keep,
             std::optional<ScalarType> type, Tensor& out) {
  prepare<at::meta::structured_mean_dim>({out}, self, dims, keep, type);
  if (is_real_float(self) && is_real_float(out) && !type &&
      reduce("MEAN", self, dims_of(dims), out))
    return out;
  return host_op<at::_ops::mean_out>(self, dims, keep, type, out);
}

Tensor& vector_norm(const Tensor& self, const Scalar& order, OptionalIntArrayRef dims, bool keep,
                    std::optional<ScalarType> type, Tensor& out) {
  prepare<at::meta::structured_linalg_vector_norm>({out}, self, order, dims, keep, type);
  if (order.equal(2) && is_real_float(self) && !type && reduce("NORM", self, dims_of(dims), out))
    return out;
  return host_op<at::_ops::linalg_vector_norm_out>(self, order, dims, keep, type, out);
}

Tensor& all(const Tensor& self, std::int64_t dim, bool keep, Tensor& out) {
  prepare<at::meta::structured_all_dim>({out}, self, dim, keep);
  if (self.scalar_type() == at::kBool && out.scalar_type() == at::kBool && self.dim() > 0 &&
      reduce("ALL", self, {dim}, out))
    return out;
  return host_op<at::_ops::all_out>(self, dim, keep, out);
}

}  // namespace

void register_reductions(torch::Library& library) {
  library.impl("sum.IntList_out", TORCH_FN(sum));
  library.impl("mean.out", TORCH_FN(mean));
  library.impl("linalg_vector_norm.out", TORCH_FN(vector_norm));
  library.impl("all.out", TORCH_FN(all));
}

}  // namespace ocl_backend
