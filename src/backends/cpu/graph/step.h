// One step of captured work.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <memory>
#include <vector>

namespace anyaccel::backends::cpu {

/// A step that replay runs. It holds its tensors, whose addresses must not change.
class Step {
 public:
  virtual ~Step() = default;
  virtual void run() = 0;
  /// False if the step can run only once. Called after the first run. The default is true.
  virtual bool repeatable() const { return true; }
};

/// Sets the thread's state for running steps: below autograd, without gradients, and without
/// torch's warnings. The capture has already printed them, and some out= kernels warn about outputs
/// that they resize themselves.
class StepScope {
 private:
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::AutoGradMode no_grad_{false};
  struct Quiet final : c10::WarningHandler {
    void process(const c10::Warning& /*warning*/) override {}
  };
  Quiet quiet_;
  c10::WarningUtils::WarningHandlerGuard guard_{&quiet_};
};

/// Makes a step that calls `op`'s CPU kernel with `args` and, if `outputs` is not empty, copies the
/// results into them. Works for every op, at the cost of a boxed call.
std::unique_ptr<Step> make_boxed_step(const c10::OperatorHandle& op, torch::jit::Stack args,
                                      std::vector<at::Tensor> outputs);

/// The defined tensors in `values`, in order, including those in lists.
std::vector<at::Tensor> tensors_in(c10::ArrayRef<c10::IValue> values);

}  // namespace anyaccel::backends::cpu
