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

/// Returns a tensor with the data of `weight`. The ops `t`, `matmul`, `mm`, `addmm`, `linear` and
/// `embedding` communicate as `share` requires when they are given this tensor.
at::Tensor marked(const at::Tensor& weight, WeightShare share);

}  // namespace anyaccel::llm
