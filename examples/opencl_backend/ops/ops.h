// Declarations that the files of this folder share. Each file registers a group of ops.
#pragma once

#include <ATen/Operators.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <limits>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/launch.h"

namespace ocl_backend {

void register_elementwise(torch::Library& library);
void register_reductions(torch::Library& library);
void register_matmul(torch::Library& library);
void register_normalization(torch::Library& library);
void register_indexing(torch::Library& library);
void register_optimizers(torch::Library& library);

/// Runs an op on the host: host_op<at::_ops::add_out>(self, other, alpha, out). Kernels call it for
/// dtypes and shapes that they do not support.
template <class Op, class... Arguments>
decltype(auto) host_op(Arguments&&... arguments) {
  return at::native::call_fallback_fn<&fallback, Op>::call(std::forward<Arguments>(arguments)...);
}

/// Runs `expression` for each element of the iterator. The expression uses the inputs a, b and c
/// and the parameters p0, p1 and p2. `compute` is the dtype in which it is computed. Returns false
/// if a dtype or the number of dimensions is unsupported.
bool pointwise(const char* name, const std::string& expression, at::TensorIteratorBase& iterator,
               at::ScalarType compute, const std::vector<at::Scalar>& parameters = {});

/// Copies between tensors of one device, with conversion and any strides. Returns false if
/// unsupported.
bool copy_on_device(const at::Tensor& target, const at::Tensor& source);

/// Returns whether all tensors are on this device and have a dtype that kernels support.
inline bool supported(std::initializer_list<at::Tensor> tensors) {
  for (const auto& tensor : tensors)
    if (tensor.device().type() != kDeviceType || type_name(tensor.scalar_type()) == nullptr)
      return false;
  return true;
}
inline bool is_real_float(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type()) && type_name(tensor.scalar_type()) != nullptr;
}

/// Returns whether all tensors are on this device, not empty, small enough for 32-bit indices, and
/// of one dtype that kernels compute in float.
inline bool usable(std::initializer_list<at::Tensor> tensors) {
  const auto type = tensors.begin()->scalar_type();
  for (const auto& tensor : tensors)
    if (tensor.scalar_type() != type || tensor.device().type() != kDeviceType ||
        tensor.numel() == 0 || tensor.numel() > std::numeric_limits<std::int32_t>::max())
      return false;
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace ocl_backend
