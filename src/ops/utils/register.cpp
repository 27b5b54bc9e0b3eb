// Registers anyaccel::cast_to_byte_tensor: a tensor's memory as bytes, on any device.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace {

/// Returns a view, so torch provides the kernel for every device and for meta tensors.
at::Tensor cast_to_byte_tensor(const at::Tensor& src) {
  TORCH_CHECK_VALUE(src.is_contiguous(),
                    "[cast_to_byte_tensor] the tensor is not contiguous; got strides ",
                    src.strides(), "; call contiguous()");
  TORCH_CHECK_VALUE(
      !src.is_conj() && !src.is_neg(),
      "[cast_to_byte_tensor] the memory does not contain the tensor's values; got a lazy ",
      "conjugate or negative view, want a materialized tensor; "
      "call resolve_conj().resolve_neg()");
  return src.detach().view({-1}).view(at::kByte);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("cast_to_byte_tensor(Tensor(a) src) -> Tensor(a)", &cast_to_byte_tensor);
}
