// a * x + y in one pass over the device's memory. axpy.op describes how to build it.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace {

at::Tensor axpy(const at::Tensor& x, const at::Tensor& y, double a) {
  TORCH_CHECK(x.device().is_privateuseone() && y.device() == x.device(),
              "axpy: expected two tensors on the same ocl device, got ", x.device(), " and ",
              y.device());
  TORCH_CHECK(
      x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat && x.sizes() == y.sizes(),
      "axpy: expected two float32 tensors of the same shape");
  const auto from = x.contiguous();
  const auto plus = y.contiguous();
  auto out = at::empty_like(from);
  const auto* left = from.const_data_ptr<float>();
  const auto* right = plus.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<float>();
  const auto factor = static_cast<float>(a);
  for (std::int64_t i = 0; i < out.numel(); ++i) to[i] = factor * left[i] + right[i];
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ocl, library) {
  library.def("axpy(Tensor x, Tensor y, float a) -> Tensor");
}
TORCH_LIBRARY_IMPL(ocl, PrivateUse1, library) { library.impl("axpy", TORCH_FN(axpy)); }
