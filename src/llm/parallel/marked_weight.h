// Weight shards, represented by tensors that the dispatcher recognizes by their dispatch key.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "anyaccel/comm.h"
#include "llm/parallel/module_plan.h"

namespace anyaccel::llm {

/// Describes how a matrix product with a marked weight communicates.
struct WeightShare {
  std::shared_ptr<comm::ProcessGroup> group;
  ModulePart part;
  std::int64_t whole = 0;  ///< total size of the split dimension
};

/// Returns a tensor with the data of `weight`. When t, matmul, mm, addmm, linear and embedding use
/// this tensor, they communicate as `share` requires.
at::Tensor marked(const at::Tensor& weight, WeightShare share);

}  // namespace anyaccel::llm
