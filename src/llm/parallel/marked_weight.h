// Weights of which a rank has a part, as tensors that the dispatcher knows.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "anyaccel/comm.h"
#include "llm/parallel/module_plan.h"

namespace anyaccel::llm {

/// What products with a marked weight need to know.
struct WeightShare {
  std::shared_ptr<comm::ProcessGroup> group;
  ModulePart part;
  std::int64_t whole = 0;  ///< size of the split dimension
};

/// The values of `weight` as a tensor with which t, matmul, mm, addmm, linear and embedding
/// exchange what the share says.
at::Tensor marked(const at::Tensor& weight, WeightShare share);

}  // namespace anyaccel::llm
