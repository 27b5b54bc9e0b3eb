// One piece of captured work.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <vector>

namespace anyaccel::backends::cpu {

/// What replay runs. A step holds the tensors that it works on; they keep their addresses.
class Step {
 public:
  virtual ~Step() = default;
  virtual void run() = 0;
};

/// Calls `op`'s CPU kernel with `args`; where `outputs` is not empty, copies the results into them.
/// Works for every op; the cost is a boxed call.
std::unique_ptr<Step> make_boxed_step(const c10::OperatorHandle& op, torch::jit::Stack args,
                                      std::vector<at::Tensor> outputs);

/// The tensors among values, lists of tensors taken apart, in order. Undefined ones are left out.
std::vector<at::Tensor> tensors_in(c10::ArrayRef<c10::IValue> values);

}  // namespace anyaccel::backends::cpu
