// Memory of intermediates: values of a graph that are never needed at the same time share it.
#pragma once

#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "backends/cpu/graph/fast_step.h"

namespace anyaccel::backends::cpu {

/// One recorded call.
struct Recorded {
  std::unique_ptr<Step> step;
  FastMaker maker =
      nullptr;  ///< of a fast step, which keeps addresses and is made anew when memory has moved
  torch::jit::Stack args;
  std::vector<at::Tensor> inputs;   ///< what it reads
  std::vector<at::Tensor> outputs;  ///< what it writes
  bool overwrites = false;          ///< all of the outputs' memory
};

/// True when the tensor is all of its memory.
bool covers_storage(const at::Tensor& tensor);

/// Moves intermediates into one block. An intermediate is a storage that only the recorded calls
/// hold and that the first of them to touch it overwrites; its values are gone afterwards, until a
/// replay. Returns the bytes saved.
std::size_t share_memory(std::vector<Recorded>& calls);

}  // namespace anyaccel::backends::cpu
