// Loads libanyaccel_cuda_graph if LibTorch has CUDA.
#pragma once

#include <string>

#include "backends/cuda/graph/entry.h"

namespace anyaccel::backends::cuda {

/// The functions of the library, or the reason why they are not available.
struct GraphLibrary {
  AnyaccelCudaGraphCreate* create = nullptr;
  AnyaccelCudaGraphCapturing* capturing = nullptr;
  std::string reason;         ///< empty if both functions are available
  bool without_cuda = false;  ///< true if this process's LibTorch was built without CUDA

  /// Loads the library on the first call and keeps it loaded. The path is
  /// ANYACCEL_CUDA_GRAPH_LIBRARY if set; otherwise, the library is looked up next to libanyaccel.
  /// Thread-safe, never throws.
  static const GraphLibrary& instance() noexcept;
};

}  // namespace anyaccel::backends::cuda
