// What tensor_parallel() makes of each layer; knows sizes and names, no tensors.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/llm/module_parallel.h"
#include "llm/parallel/plan.h"

namespace anyaccel::llm {

struct ModuleLayer {
  std::string name;
  bool embedding = false;
  std::vector<std::int64_t> shape;  ///< outputs, inputs; or tokens, width
  bool splittable = true;           ///< false: an embedding that changes its weight as it is read
  std::int64_t padding =
      -1;  ///< an embedding's padding_idx, which torch wants to be a row of every rank's part
};

struct ModulePart {
  ModuleStyle style = ModuleStyle::replicated;
  std::size_t dim = 0;
  std::vector<Slice> slices;  ///< of the weight's dimension `dim`; replicated: none

  std::vector<std::int64_t> local_shape(std::vector<std::int64_t> shape) const;
};

/// One for each layer.
std::vector<ModulePart> plan_module(const std::vector<ModuleLayer>& layers,
                                    const ModuleParallelOptions& options, int rank, int ranks);

}  // namespace anyaccel::llm
