// Tensors as they are at one moment of a capture.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <unordered_map>
#include <vector>

namespace anyaccel::backends::cpu {

/// Makes aliases of tensors that keep the present geometry and nothing of autograd: what the
/// program does to its own tensor objects later (t_(), set_(), detach_()) does not reach the graph,
/// and the graph keeps no autograd node alive. Equal tensors get the same alias. Not thread-safe.
class Snapshots {
 public:
  at::Tensor take(const at::Tensor& tensor);
  /// The value with all tensors in it replaced; lists are copied.
  c10::IValue take(const c10::IValue& value);

 private:
  std::unordered_map<const c10::TensorImpl*, std::vector<at::Tensor>> taken_;
};

}  // namespace anyaccel::backends::cpu
