// Embeddings, the cross-entropy loss, concatenation and triangular masks.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <ATen/ops/tril_meta.h>
#include <c10/core/DeviceGuard.h>

#include "ops/ops.h"

namespace ocl_backend {
namespace {

using at::Tensor;

/// Rows of a table. Also the forward pass of an embedding, which torch composes from index_select.
Tensor index_select(const Tensor& self, std::int64_t dim, const Tensor& index) {
  if (!supported({self, index}) || self.dim() == 0 || at::maybe_wrap_dim(dim, self.dim()) != 0 ||
      self.numel() == 0 || index.numel() == 0 || index.dim() > 1 ||
      self.numel() > std::numeric_limits<std::int32_t>::max())
    return host_op<at::_ops::index_select>(self, dim, index);
  const c10::DeviceGuard guard(self.device());
  const auto table = self.contiguous();
  const auto places = index.to(at::kLong).contiguous();
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[0] = places.numel();
  auto out = at::empty(sizes, self.options());
  const auto width = table.numel() / table.size(0);
  const auto name = "-DT=" + std::string(raw_name(self.scalar_type()));
  Launch(kernel("indexing.cl", "gather_rows", name), self.device().index())
      .args(static_cast<cl_int>(table.size(0)), static_cast<cl_int>(width),
            static_cast<cl_int>(places.numel()), in(table), in(places), ocl_backend::out(out),
            failure_flag(self.device().index()))
      .run({static_cast<std::size_t>(width), static_cast<std::size_t>(places.numel()), 1},
           {64, 1, 1});
  return out;
}

/// Adds the gradients of equal indices in a fixed order, so that the result is deterministic.
Tensor embedding_backward(const Tensor& gradient, const Tensor& indices, c10::SymInt count,
                          c10::SymInt padding, bool by_frequency) {
  if (by_frequency || gradient.scalar_type() != at::kFloat || !supported({gradient, indices}) ||
      gradient.numel() == 0)
    return at::native::call_fallback_fn_symint<&fallback, at::_ops::embedding_dense_backward>::call(
        gradient, indices, count, padding, by_frequency);
  const c10::DeviceGuard guard(gradient.device());
  const auto of = gradient.contiguous();
  const auto places = indices.to(at::kLong).contiguous();
  const auto width = gradient.size(-1);
  auto out = at::empty({count.guard_int(__FILE__, __LINE__), width}, gradient.options()).zero_();
  Launch(kernel("indexing.cl", "add_rows", "-DT=f32"), gradient.device().index())
      .args(static_cast<cl_int>(out.size(0)), static_cast<cl_int>(width),
            static_cast<cl_int>(places.numel()),
            static_cast<cl_long>(padding.guard_int(__FILE__, __LINE__)), in(of), in(places),
            ocl_backend::out(out))
      .run(static_cast<std::size_t>(width), 16);
  return out;
}

at::OptionalTensorRef reference(const std::optional<Tensor>& tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

/// Whether the kernels compute this loss: a matrix of float32 without class weights.
bool loss_on_device(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight) {
  return self.scalar_type() == at::kFloat && target.scalar_type() == at::kLong && self.dim() == 2 &&
         target.dim() == 1 && self.numel() > 0 && supported({self, target}) &&
         !(weight && weight->defined());
}

std::tuple<Tensor&, Tensor&> nll_forward(const Tensor& self, const Tensor& target,
                                         const std::optional<Tensor>& weight,
                                         std::int64_t reduction, std::int64_t ignored, Tensor& out,
                                         Tensor& total) {
  prepare<at::meta::structured_nll_loss_forward>({out, total}, self, target, reference(weight),
                                                 reduction, ignored);
  if (!loss_on_device(self, target, weight) || reduction == at::Reduction::None)
    return host_op<at::_ops::nll_loss_forward_output>(self, target, weight, reduction, ignored, out,
                                                      total);
  const c10::DeviceGuard guard(self.device());
  const auto input = self.contiguous();
  const auto places = target.contiguous();
  Launch(kernel("indexing.cl", "nll_loss", "-DT=f32"), self.device().index())
      .args(static_cast<cl_int>(input.size(0)), static_cast<cl_int>(input.size(1)),
            static_cast<cl_long>(ignored), static_cast<cl_int>(reduction == at::Reduction::Mean),
            in(input), in(places), ocl_backend::out(out), ocl_backend::out(total),
            failure_flag(self.device().index()))
      .run(64, 64);
  return {out, total};
}

Tensor& nll_backward(const Tensor& gradient, const Tensor& self, const Tensor& target,
                     const std::optional<Tensor>& weight, std::int64_t reduction,
                     std::int64_t ignored, const Tensor& total, Tensor& out) {
  prepare<at::meta::structured_nll_loss_backward>({out}, gradient, self, target, reference(weight),
                                                  reduction, ignored, total);
  if (!loss_on_device(self, target, weight) || reduction == at::Reduction::None ||
      gradient.scalar_type() != at::kFloat || !supported({self, gradient, total}) ||
      !out.is_contiguous())
    return host_op<at::_ops::nll_loss_backward_grad_input>(gradient, self, target, weight,
                                                           reduction, ignored, total, out);
  const c10::DeviceGuard guard(self.device());
  const auto places = target.contiguous();
  out.zero_();
  Launch(kernel("indexing.cl", "nll_loss_backward", "-DT=f32"), self.device().index())
      .args(static_cast<cl_int>(self.size(0)), static_cast<cl_int>(self.size(1)),
            static_cast<cl_long>(ignored), static_cast<cl_int>(reduction == at::Reduction::Mean),
            in(gradient), in(places), in(total), ocl_backend::out(out))
      .run(static_cast<std::size_t>(self.size(0)), 64);
  return out;
}

Tensor& cat(const at::ITensorListRef& tensors, std::int64_t dim, Tensor& out) {
  prepare<at::meta::structured_cat>({out}, tensors, dim);
  const auto parts = tensors.materialize();
  bool simple = out.dim() > 0 && type_name(out.scalar_type()) != nullptr;
  for (const Tensor& part : parts)
    simple = simple && part.device() == out.device() && part.dim() == out.dim();
  if (!simple) return host_op<at::_ops::cat_out>(tensors, dim, out);
  const auto along = at::maybe_wrap_dim(dim, out.dim());
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    out.narrow(along, at, part.size(along)).copy_(part);
    at += part.size(along);
  }
  return out;
}

template <bool lower>
Tensor& triangle(const Tensor& self, std::int64_t diagonal, Tensor& out) {
  prepare<at::meta::structured_tril>({out}, self, diagonal);  // triu has the same checks
  if (!supported({self, out}) || self.scalar_type() != out.scalar_type() || self.dim() < 2 ||
      self.numel() == 0 || !out.is_contiguous() ||
      self.numel() > std::numeric_limits<std::int32_t>::max()) {
    if constexpr (lower) return host_op<at::_ops::tril_out>(self, diagonal, out);
    return host_op<at::_ops::triu_out>(self, diagonal, out);
  }
  const c10::DeviceGuard guard(self.device());
  const auto input = self.contiguous();
  Launch(kernel("indexing.cl", "triangle", std::string("-DT=") + raw_name(self.scalar_type())),
         self.device().index())
      .args(static_cast<cl_int>(self.size(-2)), static_cast<cl_int>(self.size(-1)),
            static_cast<cl_uint>(self.numel()), static_cast<cl_int>(diagonal),
            static_cast<cl_int>(lower), in(input), ocl_backend::out(out))
      .run(static_cast<std::size_t>(self.numel()), 64);
  return out;
}

}  // namespace

void register_indexing(torch::Library& library) {
  library.impl("index_select", TORCH_FN(index_select));
  library.impl("embedding_dense_backward", TORCH_FN(embedding_backward));
  library.impl("nll_loss_forward.output", TORCH_FN(nll_forward));
  library.impl("nll_loss_backward.grad_input", TORCH_FN(nll_backward));
  library.impl("cat.out", TORCH_FN(cat));
  library.impl("tril.out", TORCH_FN(triangle<true>));
  library.impl("triu.out", TORCH_FN(triangle<false>));
}

}  // namespace ocl_backend
