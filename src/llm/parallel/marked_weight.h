// Shards of weights, as tensors that the dispatcher recognizes by a key.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "anyaccel/comm.h"
#include "llm/parallel/module_plan.h"

namespace anyaccel::llm {

/// Describes how a product with a marked weight communicates.
struct WeightShare {
  std::shared_ptr<comm::ProcessGroup> group;
  ModulePart part;
  std::int64_t whole = 0;  ///< total size of the split dimension
};

/// Returns a tensor with the data of `weight` for which t, matmul, mm, addmm, linear and embedding
/// communicate as `share` requires.
at::Tensor marked(const at::Tensor& weight, WeightShare share);

}  // namespace anyaccel::llm
