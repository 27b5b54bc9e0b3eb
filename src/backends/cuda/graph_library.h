// Opens libanyaccel_cuda_graph where it can work.
#pragma once

#include <string>

#include "backends/cuda/graph/entry.h"

namespace anyaccel::backends::cuda {

/// The functions of the library, or why they are not there.
struct GraphLibrary {
  AnyaccelCudaGraphCreate* create = nullptr;
  AnyaccelCudaGraphCapturing* capturing = nullptr;
  std::string reason;         ///< empty when both are there
  bool without_cuda = false;  ///< the LibTorch of this process is without CUDA

  /// Opened at the first call and kept. The library is looked for beside libanyaccel, or at
  /// ANYACCEL_CUDA_GRAPH_LIBRARY. Thread-safe, never throws.
  static const GraphLibrary& instance() noexcept;
};

}  // namespace anyaccel::backends::cuda
