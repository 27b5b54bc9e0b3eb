// Registers torch.ops.anyaccel.{allocate_fast_host_buffer, allocate_view_on, allocate_view_like}: views of a block of bytes.
#include "ATen/core/Tensor.h"
#include "ops/support/empty.h"
#include "ops/support/host_tensors.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

using at::Tensor;

/// The tensor of these sizes that begins `offset` bytes behind the buffer's begin.
Tensor view_of(const char* where, const Tensor& buffer, at::IntArrayRef sizes, at::IntArrayRef strides,
               at::ScalarType dtype, std::int64_t offset) {
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  std::int64_t elements = 1;
  bool empty = false;
  for (std::size_t i = 0; i < sizes.size() && sizes.size() == strides.size(); ++i) {
    empty = empty || sizes[i] == 0;
    elements += (sizes[i] - 1) * strides[i];
  }
  const std::int64_t bytes = empty ? 0 : elements * size, have = buffer.numel() * buffer.element_size();
  if (!buffer.is_contiguous() || sizes.size() != strides.size() || offset < 0 || offset % size != 0 ||
      offset + bytes > have)
    refuse(where, "the view does not fit into the buffer",
           c10::str("sizes ", sizes, ", strides ", strides, " of ", dtype, " at byte ", offset, ", a buffer of ", have),
           "room for it in a contiguous buffer, at a multiple of an element's size");
  const Tensor part = buffer.view({-1}).view(at::kByte).slice(0, offset, offset + bytes).view(dtype);
  return part.as_strided(sizes, strides, part.storage_offset());
}

Tensor view_on(const Tensor& tensor, const Tensor& buffer, std::int64_t offset) {
  return view_of("allocate_view_on", buffer, tensor.sizes(), tensor.strides(), tensor.scalar_type(), offset);
}

Tensor view_like(at::IntArrayRef shape, at::IntArrayRef strides, const Tensor& dummy, const Tensor& buffer,
                 std::int64_t offset) {
  return view_of("allocate_view_like", buffer, shape, strides, dummy.scalar_type(), offset);
}

Tensor host_buffer(const Tensor& mirror) {
  return empty(mirror.sizes(), at::TensorOptions(mirror.scalar_type()).device(at::kCPU));
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("allocate_fast_host_buffer(Tensor device_mirror) -> Tensor", host_buffer);
  m.def("allocate_view_on(Tensor tensor, Tensor(a) buffer, int offset) -> Tensor(a)", view_on);
  m.def(
      "allocate_view_like(int[] shape, int[] strides, Tensor dummy_tensor, Tensor(a) buffer, int offset) -> Tensor(a)",
      view_like);
}

}  // namespace
}  // namespace anyaccel::ops
