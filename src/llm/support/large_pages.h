// Memory for weights that are read from end to end for each token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

namespace anyaccel::llm {

/// Host tensors side by side in memory that asks the system for large pages: small ones, wherever
/// they happen to lie, cost a good part of the memory's speed. Tensors keep their memory alive. Not
/// thread-safe.
class LargePages {
 public:
  /// Uninitialized.
  at::Tensor empty(at::IntArrayRef shape, c10::ScalarType dtype);

 private:
  std::shared_ptr<void> block_;
  std::size_t used_ = 0, size_ = 0;
};

}  // namespace anyaccel::llm
