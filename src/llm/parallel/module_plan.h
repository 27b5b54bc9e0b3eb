// The plan of tensor_parallel(), based only on the layers' names and sizes.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/llm/module_parallel.h"
#include "llm/parallel/plan.h"

namespace anyaccel::llm {

struct ModuleLayer {
  std::string name;
  bool embedding = false;
  std::vector<std::int64_t> shape;  ///< [outputs, inputs], or [tokens, width] for embeddings
  bool splittable = true;           ///< false for embeddings that modify their weight on lookup
  /// An embedding's padding_idx. torch requires it to be a valid row of every rank's part.
  std::int64_t padding = -1;
};

struct ModulePart {
  ModuleStyle style = ModuleStyle::replicated;
  std::size_t dim = 0;
  std::vector<Slice> slices;  ///< ranges of the weight's dimension `dim`; empty if replicated

  std::vector<std::int64_t> local_shape(std::vector<std::int64_t> shape) const;
};

/// Returns this rank's part of each layer.
std::vector<ModulePart> plan_module(const std::vector<ModuleLayer>& layers,
                                    const ModuleParallelOptions& options, int rank, int ranks);

}  // namespace anyaccel::llm
