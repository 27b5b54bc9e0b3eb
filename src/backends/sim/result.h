// Puts the results of a CPU kernel into device memory after the kernel has run, if they are not
// already there.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <utility>

#include "backends/sim/call.h"

namespace anyaccel::backends::sim {

/// A host tensor that aliases device memory that a kernel writes to, with the tensor's state before
/// the kernel runs.
struct Result {
  at::Tensor alias;
  void* data;
  std::size_t bytes;
  TensorGeometry geometry;
  std::int64_t offset;

  explicit Result(at::Tensor tensor)
      : alias(std::move(tensor)),
        data(alias.storage().mutable_data()),
        bytes(alias.storage().nbytes()),
        geometry(geometry_of(alias)),
        offset(alias.storage_offset()) {}

  bool moved() const { return alias.storage().data() != data; }
  bool bits_changed() const {
    return alias.is_conj() != geometry.conj || alias.is_neg() != geometry.neg;
  }

  /// A tensor that aliases the original device memory, with the original sizes and strides.
  at::Tensor original() const {
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                         c10::DataPtr(data, c10::Device(c10::kCPU)),
                                                         nullptr, false);
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU),
        alias.dtype());
    auto* impl = tensor.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(geometry.sizes, geometry.strides, offset);
    if (geometry.conj) impl->_set_conj(true);
    if (geometry.neg) impl->_set_neg(true);
    return tensor;
  }

  /// Copies the values back to the device memory if the kernel resized the alias, which moves its
  /// data to new memory, or left a conjugation or negation pending.
  void bring_back(const char* op) const {
    if ((!moved() && !bits_changed()) || alias.numel() == 0) return;
    TORCH_CHECK(alias.sizes() == c10::IntArrayRef(geometry.sizes), op,
                " changed the shape of its result from ", c10::IntArrayRef(geometry.sizes), " to ",
                alias.sizes(), " while it ran");
    at::Tensor values(at::detail::empty_cpu(alias.sizes(), alias.scalar_type()));
    values.copy_(alias);
    original().copy_(values);
  }

  /// Resets the alias for the next replay.
  void restore() const {
    auto* impl = alias.unsafeGetTensorImpl();
    if (moved()) {
      auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
      storage->set_data_ptr_noswap(c10::DataPtr(data, c10::Device(c10::kCPU)));
      storage->set_nbytes(bytes);
    }
    if (alias.sizes() != c10::IntArrayRef(geometry.sizes))
      impl->set_sizes_and_strides(geometry.sizes, geometry.strides, offset);
    impl->_set_conj(geometry.conj);
    impl->_set_neg(geometry.neg);
  }
};

}  // namespace anyaccel::backends::sim
