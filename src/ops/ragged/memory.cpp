// Registers torch.ops.anyaccel.{allocate_fast_host_buffer, allocate_view_on, allocate_view_like}:
// host buffers, and views of byte buffers.
#include "ATen/core/Tensor.h"
#include "ops/shared/empty.h"
#include "ops/shared/host_tensors.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using at::Tensor;

/// Returns a view with the given sizes that begins `offset` bytes after the start of the buffer.
Tensor view_of(const char* where, const Tensor& buffer, at::SymIntArrayRef sizes,
               at::SymIntArrayRef strides, at::ScalarType dtype, const c10::SymInt& offset) {
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  c10::SymInt elements = 1;
  bool empty = false;
  for (std::size_t i = 0; i < sizes.size() && sizes.size() == strides.size(); ++i) {
    empty = empty || sizes[i] == 0;
    elements += (sizes[i] - 1) * strides[i];
  }
  const c10::SymInt bytes = empty ? c10::SymInt(0) : elements * size;
  const c10::SymInt have = buffer.sym_numel() * static_cast<std::int64_t>(buffer.element_size());
  if (!buffer.is_contiguous() || sizes.size() != strides.size() || offset < 0 ||
      offset % size != 0 || offset + bytes > have)
    fail_argument(
        where, "the view does not fit in the buffer",
        c10::str("sizes ", sizes, ", strides ", strides, " of ", dtype, " at byte ", offset,
                 ", in a buffer of ", have, " bytes"),
        "a contiguous buffer with room at an offset that is a multiple of the element size");
  const Tensor part =
      buffer.view({-1}).view(at::kByte).slice_symint(0, offset, offset + bytes).view(dtype);
  return part.as_strided_symint(sizes, strides, part.sym_storage_offset());
}

Tensor view_on(const Tensor& tensor, const Tensor& buffer, c10::SymInt offset) {
  return view_of("allocate_view_on", buffer, tensor.sym_sizes(), tensor.sym_strides(),
                 tensor.scalar_type(), offset);
}

Tensor view_like(at::SymIntArrayRef shape, at::SymIntArrayRef strides, const Tensor& dummy,
                 const Tensor& buffer, c10::SymInt offset) {
  return view_of("allocate_view_like", buffer, shape, strides, dummy.scalar_type(), offset);
}

Tensor host_buffer(const Tensor& mirror) {
  return empty(mirror.sizes(), at::TensorOptions(mirror.scalar_type()).device(at::kCPU));
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("allocate_fast_host_buffer(Tensor device_mirror) -> Tensor", host_buffer);
  m.def("allocate_view_on(Tensor tensor, Tensor(a) buffer, SymInt offset) -> Tensor(a)", view_on);
  m.def(
      "allocate_view_like(SymInt[] shape, SymInt[] strides, Tensor dummy_tensor, Tensor(a) buffer, "
      "SymInt offset) -> "
      "Tensor(a)",
      view_like);
}

}  // namespace
}  // namespace anyaccel::ops
