// Kernels that create tensors or change their metadata. They run on the host and do not access the
// device's data.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/view_native.h>

#include <cstring>

#include "backends/sim/allocator.h"
#include "backends/sim/kernels.h"
#include "backends/sim/memory_map.h"
#include "backends/sim/register.h"

namespace anyaccel::backends::sim {

namespace {

using OptionalType = std::optional<c10::ScalarType>;
using OptionalLayout = std::optional<c10::Layout>;
using OptionalDevice = std::optional<c10::Device>;
using OptionalFormat = std::optional<c10::MemoryFormat>;

int index_of(const OptionalDevice& device) {
  return device && device->has_index() ? device_at(device->index()).index : current_device();
}

c10::ScalarType type_of(const OptionalType& dtype) {
  return dtype.value_or(c10::get_default_dtype_as_scalartype());
}

void check_options(const OptionalLayout& layout, const std::optional<bool>& pinned) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided,
                              "[sim] only strided tensors are supported");
  TORCH_CHECK(!pinned.value_or(false), "[sim] only host memory can be pinned");
}

at::Tensor empty_kernel(at::IntArrayRef sizes, OptionalType dtype, OptionalLayout layout,
                        OptionalDevice device, std::optional<bool> pinned, OptionalFormat format) {
  check_options(layout, pinned);
  return empty(index_of(device), sizes, type_of(dtype), format);
}

at::Tensor empty_strided_kernel(at::IntArrayRef sizes, at::IntArrayRef strides, OptionalType dtype,
                                OptionalLayout layout, OptionalDevice device,
                                std::optional<bool> pinned) {
  check_options(layout, pinned);
  return empty_strided(index_of(device), sizes, strides, type_of(dtype));
}

const at::Tensor& resize_kernel(const at::Tensor& self, at::IntArrayRef sizes,
                                OptionalFormat format) {
  at::detail::check_size_nonnegative(sizes);
  if (self.sizes() == sizes && !format) return self;
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format && *format != c10::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  resize(self, c10::SmallVector<std::int64_t, 5>(sizes),
         c10::SmallVector<std::int64_t, 5>(self.strides()));
  return self;
}

at::Tensor& set_geometry(at::Tensor& self, at::Storage source, std::int64_t offset,
                         at::IntArrayRef sizes, at::IntArrayRef strides) {
  TORCH_CHECK(source.device().type() == runtime().type,
              "[sim] the storage must be in device memory; got a storage on ", source.device());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (strides.data() == nullptr || strides.size() != sizes.size()) {
    impl->set_sizes_contiguous(sizes);
    resize(self, c10::SmallVector<std::int64_t, 5>(sizes),
           c10::SmallVector<std::int64_t, 5>(self.strides()));
  } else {
    resize(self, sizes, strides);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto count = static_cast<std::int64_t>(source.nbytes() / self.itemsize());
  return set_geometry(self, std::move(source), 0, count, {});
}

at::Tensor& set_nothing(at::Tensor& self) {
  return set_geometry(
      self, at::Storage(empty(self.device().index(), 0, self.scalar_type()).storage()), 0, 0, {});
}

/// True if `self.data = from` is allowed. As with CUDA and other vendors' devices, it is allowed
/// between dense host tensors and dense device tensors.
bool can_take_the_place(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || on_device(tensor));
  };
  return self.key_set() == from.key_set() || (plain(self) && plain(from));
}

/// The op that torch.compile calls for UntypedStorage.resize_(). If the simulator stands in for
/// CUDA, that method calls this kernel, because torch's own code for CUDA requires a CUDA build.
void resize_storage_of(const at::Tensor& self, c10::SymInt bytes) {
  const auto wanted = bytes.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(wanted >= 0, "[sim] the size of a storage must not be negative; got ", wanted);
  resize_storage(*self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
                 static_cast<std::size_t>(wanted));
}

void record_stream(at::Tensor& self, at::Stream stream) {
  allocator().recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

void resize_storage(c10::StorageImpl& storage, std::size_t bytes) {
  TORCH_CHECK(storage.resizable(), "[sim] the storage is not resizable");
  auto fresh = allocator().allocate_on(storage.device().index(), bytes);
  if (const auto kept = std::min(bytes, storage.nbytes()); kept != 0) {
    allocator().copy_data(fresh.get(), storage.data(), kept);
    // Memory allocated on the current stream is freed in stream order, after the copy. For memory
    // allocated on other streams, recordStream() delays the free until then.
    auto& stream = current_stream(storage.device().index());
    allocator().recordStream(storage.data_ptr(), to_torch(stream));
  }
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}

void resize(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* impl = tensor.unsafeGetTensorImpl();
  const auto needed = at::detail::computeStorageNbytes(
      sizes, strides, tensor.itemsize(), static_cast<std::size_t>(impl->storage_offset()));
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage->nbytes() < needed) resize_storage(*storage, needed);
  impl->set_sizes_and_strides(sizes, strides);
}

void register_memory_kernels() {
  auto& library = device_library();
  library.impl("empty.memory_format", TORCH_FN(empty_kernel));
  library.impl("empty_strided", TORCH_FN(empty_strided_kernel));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("resize_", TORCH_FN(resize_kernel));
  library.impl("set_.source_Storage", TORCH_FN(set_storage));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_geometry));
  library.impl("set_", TORCH_FN(set_nothing));
  library.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  library.impl("record_stream", TORCH_FN(record_stream));
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(can_take_the_place));
  make_library("inductor", runtime().key)
      .impl("resize_storage_bytes_", TORCH_FN(resize_storage_of));
}

}  // namespace anyaccel::backends::sim
