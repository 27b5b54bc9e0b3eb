// Updates slices of parameters in host memory.
#pragma once

#include "anyaccel/ops/cpu_adam.h"
#include "llm/zero/state.h"

namespace anyaccel::llm {

/// The tensors of a slice, or of a part of it: 1-d float32 host tensors of the same size.
struct HostSlice {
  at::Tensor weight, gradient, exp_avg, exp_avg_sq;
};

/// Applies CPUAdam to slices.
class HostAdam {
 public:
  explicit HostAdam(const AdamWOptions& options);
  /// Updates a slice of which `out` are the elements in the model. They may be the weights
  /// themselves. Works through the slice in pieces that fit into the cache.
  void update(const HostSlice& slice, const at::Tensor& out, double weight_decay,
              const UpdateInput& input);

 private:
  ops::CPUAdam adam_;
};

}  // namespace anyaccel::llm
