// Softmax, log-softmax and layer normalization, with their gradients: one work-group per row.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include <tuple>

#include "ops/ops.h"

namespace ocl_backend {
namespace {

using at::Tensor;

constexpr std::size_t kGroup = 64;

/// The strides of a softmax over one dimension of contiguous tensors: a row is (outer, inner) and
/// its elements are `inner` apart.
struct Rows {
  cl_int length = 1, inner = 1;
  std::size_t count = 1;
};

Rows rows_of(const Tensor& tensor, std::int64_t dim) {
  Rows rows;
  if (tensor.dim() == 0) return rows;
  dim = at::maybe_wrap_dim(dim, tensor.dim());
  rows.length = static_cast<cl_int>(tensor.size(dim));
  for (auto d = dim + 1; d < tensor.dim(); ++d) rows.inner *= static_cast<cl_int>(tensor.size(d));
  rows.count = static_cast<std::size_t>(tensor.numel() / std::max<std::int64_t>(1, rows.length));
  return rows;
}

std::string defines(const Tensor& tensor, bool log = false) {
  return std::string("-DT=") + type_name(tensor.scalar_type()) + (log ? " -DLOG" : "");
}

bool forward(bool log, const Tensor& self, std::int64_t dim, const Tensor& out) {
  if (!usable({self, out}) || !out.is_contiguous()) return false;
  const auto input = self.contiguous();
  const auto rows = rows_of(input, dim);
  const c10::DeviceGuard guard(out.device());
  Launch(kernel("softmax.cl", "softmax", defines(out, log)), out.device().index())
      .args(rows.length, rows.inner, in(input), ocl_backend::out(out))
      .run(rows.count * kGroup, kGroup);
  return true;
}

bool backward(bool log, const Tensor& gradient, const Tensor& output, std::int64_t dim,
              const Tensor& out) {
  if (!usable({gradient, output, out}) || !out.is_contiguous()) return false;
  const auto of = gradient.contiguous();
  const auto result = output.contiguous();
  const auto rows = rows_of(result, dim);
  const c10::DeviceGuard guard(out.device());
  Launch(kernel("softmax.cl", "softmax_backward", defines(out, log)), out.device().index())
      .args(rows.length, rows.inner, in(of), in(result), ocl_backend::out(out))
      .run(rows.count * kGroup, kGroup);
  return true;
}

Tensor& softmax(const Tensor& self, std::int64_t dim, bool to_float, Tensor& out) {
  prepare<at::meta::structured__softmax>({out}, self, dim, to_float);
  if (!to_float && forward(false, self, dim, out)) return out;
  return host_op<at::_ops::_softmax_out>(self, dim, to_float, out);
}
Tensor& log_softmax(const Tensor& self, std::int64_t dim, bool to_float, Tensor& out) {
  prepare<at::meta::structured__log_softmax>({out}, self, dim, to_float);
  if (!to_float && forward(true, self, dim, out)) return out;
  return host_op<at::_ops::_log_softmax_out>(self, dim, to_float, out);
}
Tensor& softmax_backward(const Tensor& gradient, const Tensor& output, std::int64_t dim,
                         at::ScalarType type, Tensor& out) {
  prepare<at::meta::structured__softmax_backward_data>({out}, gradient, output, dim, type);
  if (backward(false, gradient, output, dim, out)) return out;
  return host_op<at::_ops::_softmax_backward_data_out>(gradient, output, dim, type, out);
}
Tensor& log_softmax_backward(const Tensor& gradient, const Tensor& output, std::int64_t dim,
                             at::ScalarType type, Tensor& out) {
  prepare<at::meta::structured__log_softmax_backward_data>({out}, gradient, output, dim, type);
  if (backward(true, gradient, output, dim, out)) return out;
  return host_op<at::_ops::_log_softmax_backward_data_out>(gradient, output, dim, type, out);
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& self, at::IntArrayRef shape,
                                              const std::optional<Tensor>& weight,
                                              const std::optional<Tensor>& bias, double eps) {
  const auto length = c10::multiply_integers(shape);
  const bool has_weight = weight && weight->defined(), has_bias = bias && bias->defined();
  if (length == 0 || !usable({self}) || self.scalar_type() != at::kFloat ||
      (has_weight && !usable({self, *weight})) || (has_bias && !usable({self, *bias})))
    return host_op<at::_ops::native_layer_norm>(self, shape, weight, bias, eps);
  const c10::DeviceGuard guard(self.device());
  const auto input = self.contiguous();
  const auto rows = input.numel() / length;
  auto out = at::empty_like(input);
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  for (auto d = sizes.size() - shape.size(); d < sizes.size(); ++d) sizes[d] = 1;
  auto mean = at::empty(sizes, input.options());
  auto rstd = at::empty(sizes, input.options());
  const auto scale = has_weight ? weight->contiguous() : input;
  const auto shift = has_bias ? bias->contiguous() : input;
  Launch(kernel("layer_norm.cl", "layer_norm"), self.device().index())
      .args(static_cast<cl_int>(length), static_cast<cl_int>(has_weight),
            static_cast<cl_int>(has_bias), static_cast<cl_float>(eps), in(input), in(scale),
            in(shift), ocl_backend::out(out), ocl_backend::out(mean), ocl_backend::out(rstd))
      .run(static_cast<std::size_t>(rows) * kGroup, kGroup);
  return {out, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& gradient, const Tensor& self,
                                                       at::IntArrayRef shape, const Tensor& mean,
                                                       const Tensor& rstd,
                                                       const std::optional<Tensor>& weight,
                                                       const std::optional<Tensor>& bias,
                                                       std::array<bool, 3> wanted) {
  const auto length = c10::multiply_integers(shape);
  const bool has_weight = weight && weight->defined();
  if (length == 0 || !usable({self, gradient, mean, rstd}) || self.scalar_type() != at::kFloat ||
      (has_weight && !usable({self, *weight})))
    return host_op<at::_ops::native_layer_norm_backward>(gradient, self, shape, mean, rstd, weight,
                                                         bias, wanted);
  const c10::DeviceGuard guard(self.device());
  const auto input = self.contiguous();
  const auto of = gradient.contiguous();
  const auto rows = input.numel() / length;
  const auto device = self.device().index();
  Tensor grad_input, grad_weight, grad_bias;
  if (wanted[0]) {
    grad_input = at::empty_like(input);
    const auto scale = has_weight ? weight->contiguous() : input;
    Launch(kernel("layer_norm.cl", "layer_norm_backward"), device)
        .args(static_cast<cl_int>(length), static_cast<cl_int>(has_weight), in(of), in(input),
              in(scale), in(mean), in(rstd), ocl_backend::out(grad_input))
        .run(static_cast<std::size_t>(rows) * kGroup, kGroup);
  }
  if ((wanted[1] && has_weight) || (wanted[2] && bias && bias->defined())) {
    grad_weight = at::empty(shape, input.options());
    grad_bias = at::empty(shape, input.options());
    Launch(kernel("layer_norm.cl", "layer_norm_backward_weight"), device)
        .args(static_cast<cl_int>(rows), static_cast<cl_int>(length), in(of), in(input), in(mean),
              in(rstd), ocl_backend::out(grad_weight), ocl_backend::out(grad_bias))
        .run(static_cast<std::size_t>(length), kGroup);
    if (!wanted[1]) grad_weight = Tensor();
    if (!wanted[2]) grad_bias = Tensor();
  }
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace

void register_normalization(torch::Library& library) {
  library.impl("_softmax.out", TORCH_FN(softmax));
  library.impl("_log_softmax.out", TORCH_FN(log_softmax));
  library.impl("_softmax_backward_data.out", TORCH_FN(softmax_backward));
  library.impl("_log_softmax_backward_data.out", TORCH_FN(log_softmax_backward));
  library.impl("native_layer_norm", TORCH_FN(layer_norm));
  library.impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
}

}  // namespace ocl_backend
