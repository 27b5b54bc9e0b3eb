// at::empty() for the ops' sources. Torch's own header includes the generators and hooks of every
// backend, which takes half as long to compile as all of Tensor.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_ops.h>

namespace anyaccel::ops {

/// Equivalent to at::empty(sizes, options).
inline at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::_ops::empty_memory_format::call(
      c10::fromIntArrayRefSlow(sizes), c10::optTypeMetaToScalarType(options.dtype_opt()),
      options.layout_opt(), options.device_opt(), options.pinned_memory_opt(),
      options.memory_format_opt());
}

}  // namespace anyaccel::ops
