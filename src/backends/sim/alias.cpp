#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include "backends/sim/allocator.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/reject.h"

namespace anyaccel::backends::sim {

at::Tensor alias(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const auto* from = tensor.unsafeGetTensorImpl();
  const auto& storage = from->unsafe_storage();
  auto host = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(memory_map.alias(storage.data()), c10::Device(c10::kCPU)),
      c10::GetCPUAllocator(),
      // Some kernels resize their result while they run.
      /*resizable=*/true);
  auto result = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(host)), c10::DispatchKeySet(c10::DispatchKey::CPU), from->dtype());
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(sizes, strides, from->storage_offset());
  if (from->is_conj()) impl->_set_conj(true);
  if (from->is_neg()) impl->_set_neg(true);
  if (from->is_wrapped_number()) impl->set_wrapped_number(true);
  return result;
}

at::Tensor alias(const at::Tensor& tensor) {
  return alias(tensor, tensor.sizes(), tensor.strides());
}

at::Tensor without_object(const at::Tensor& tensor) {
  return at::Tensor(
      tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), false));
}

Operand operand(const at::Tensor& tensor, bool written) {
  const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  return {.address = storage.data(),
          .bytes = storage.nbytes(),
          .tensor = tensor.unsafeGetTensorImpl(),
          .written = written};
}

void check_dtype(c10::ScalarType dtype) {
  if (((runtime().dtype_bits >> static_cast<unsigned>(dtype)) & 1U) == 0)
    reject<c10::TypeError>("the device does not support the dtype ", dtype,
                           ": SIM_DTYPES excludes it; convert to a supported one");
}

namespace {

at::Tensor make_tensor(int device, std::size_t bytes, c10::ScalarType dtype) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       allocator().allocate_on(device, bytes),
                                                       &allocator(), true);
  return at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), runtime().keys,
                                                  c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace

at::Tensor empty_strided(int device, at::IntArrayRef sizes, at::IntArrayRef strides,
                         c10::ScalarType dtype) {
  check_dtype(dtype);
  at::detail::check_size_nonnegative(sizes);
  auto tensor = make_tensor(
      device, at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype)), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor empty(int device, at::IntArrayRef sizes, c10::ScalarType dtype,
                 std::optional<c10::MemoryFormat> format) {
  check_dtype(dtype);
  at::detail::check_size_nonnegative(sizes);
  auto tensor = make_tensor(
      device, at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype)), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (format && *format != c10::MemoryFormat::Contiguous && *format != c10::MemoryFormat::Preserve)
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return tensor;
}

}  // namespace anyaccel::backends::sim
