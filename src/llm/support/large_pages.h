// Memory for weights that are read completely for each token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

namespace anyaccel::llm {

/// Allocates host tensors contiguously and requests large pages for them. Small pages at scattered
/// addresses reduce memory bandwidth. Tensors keep their memory alive. Not thread-safe.
class LargePages {
 public:
  /// Returns an uninitialized tensor.
  at::Tensor empty(at::IntArrayRef shape, c10::ScalarType dtype);

 private:
  std::shared_ptr<void> block_;
  std::size_t used_ = 0, size_ = 0;
};

}  // namespace anyaccel::llm
