// Parameters as ranges of 1-d memory. A parameter's elements are numbered in the order of its
// memory, which differs from the order of its indices if the parameter is a transposed view.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>

namespace anyaccel::llm {

/// All elements of a parameter, as a 1-d tensor that shares its memory but not its gradient. The
/// parameter is dense and has no overlapping elements.
inline at::Tensor flat(const at::Tensor& parameter) {
  return parameter.variable_data().as_strided({parameter.numel()}, {1}, parameter.storage_offset());
}

/// A view with the parameter's shape and order of memory of the elements of `memory`, a 1-d tensor,
/// from `offset`.
inline at::Tensor shaped_like(const at::Tensor& parameter, const at::Tensor& memory,
                              std::int64_t offset) {
  return memory.as_strided(parameter.sizes(), parameter.strides(),
                           memory.storage_offset() + offset);
}

}  // namespace anyaccel::llm
