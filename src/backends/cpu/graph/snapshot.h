// Snapshots of tensor objects during a capture.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <unordered_map>
#include <vector>

namespace anyaccel::backends::cpu {

/// Creates aliases of tensors with their current sizes and strides, and without autograd state. If
/// the program later changes its own tensor objects (t_(), set_(), detach_()), the graph is not
/// affected, and the graph does not keep autograd nodes alive. A tensor that has not changed since
/// its last alias gets the same alias again. Not thread-safe.
class Snapshots {
 public:
  at::Tensor take(const at::Tensor& tensor);
  /// Returns the value with all its tensors replaced by aliases; lists are copied.
  c10::IValue take(const c10::IValue& value);

 private:
  std::unordered_map<const c10::TensorImpl*, std::vector<at::Tensor>> taken_;
};

}  // namespace anyaccel::backends::cpu
