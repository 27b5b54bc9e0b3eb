// Declarations that the files of this folder share. Each file registers a group of ops.
#pragma once

#include <ATen/Operators.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <limits>
#include <string>
#include <utility>
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

/// Runs the first half of a structured op of torch (`Meta`), for prepare().
template <class Meta>
class Outputs final : public Meta {
 public:
  explicit Outputs(std::vector<at::Tensor> outputs) : outputs_(std::move(outputs)) {}
  const at::Tensor& maybe_get_output(std::int64_t index) override {
    return outputs_[static_cast<std::size_t>(index)];
  }
  void set_output_raw_strided(std::int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    const auto& out = maybe_get_output(index);
    TORCH_CHECK(out.dtype() == options.dtype(), "ocl: out= has the dtype ", out.dtype(),
                ", but the result has ", options.dtype());
    TORCH_CHECK(out.device() == options.device(), "ocl: out= is on ", out.device(),
                ", but the inputs are on ", options.device());
    if (at::native::resize_output(out, sizes) && !strides.empty()) out.as_strided_(sizes, strides);
  }
  void set_output_strided(std::int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    set_output_raw_strided(index, sizes, strides, options);
  }

 private:
  std::vector<at::Tensor> outputs_;
};

/// Checks the inputs of an `.out` kernel and resizes its outputs. torch does neither for kernels
/// that are registered by these names: it passes the user's `out=` as it is. Kernels that use
/// TensorIterator do not need this function, because the iterator resizes the output.
template <class Meta, class... Arguments>
void prepare(std::vector<at::Tensor> outputs, const Arguments&... arguments) {
  const c10::DeviceGuard guard(outputs[0].device());
  Outputs<Meta>(std::move(outputs)).meta(arguments...);
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
    if (tensor.device().type() != kDeviceType || tensor.device() != tensors.begin()->device() ||
        type_name(tensor.scalar_type()) == nullptr)
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
        tensor.device() != tensors.begin()->device() || tensor.numel() == 0 ||
        tensor.numel() > std::numeric_limits<std::int32_t>::max())
      return false;
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace ocl_backend
