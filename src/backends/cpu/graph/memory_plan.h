// Lets intermediate tensors of a graph share memory if their lifetimes are disjoint.
#pragma once

#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "backends/cpu/graph/fast_step.h"

namespace anyaccel::backends::cpu {

/// One recorded call.
struct Recorded {
  std::unique_ptr<Step> step;
  /// Recreates a fast step after its memory has moved, because fast steps store addresses.
  FastMaker maker = nullptr;
  torch::jit::Stack args;
  std::vector<at::Tensor> inputs;   ///< tensors that it reads
  std::vector<at::Tensor> outputs;  ///< tensors that it writes
  bool overwrites = false;          ///< it overwrites all of the outputs' memory
};

/// True if the tensor covers all of its storage.
bool covers_storage(const at::Tensor& tensor);

/// Moves intermediates into one block. Intermediates are storages that only the recorded calls hold
/// and whose first use overwrites them. Their contents are undefined until the next replay. Returns
/// the number of bytes saved.
std::size_t share_memory(std::vector<Recorded>& calls);

}  // namespace anyaccel::backends::cpu
