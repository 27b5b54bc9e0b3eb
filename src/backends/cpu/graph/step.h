// One piece of captured work.
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

/// What replay runs. A step holds the tensors that it works on; they keep their addresses.
class Step {
 public:
  virtual ~Step() = default;
  virtual void run() = 0;
  /// False when running has used the step up. Asked after the first run. Optional: true.
  virtual bool repeatable() const { return true; }
};

/// The state of the thread that steps run in: below autograd, without gradients, and without
/// torch's warnings, which the capture has shown already (some out= kernels warn about outputs that
/// they themselves resize).
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

/// Calls `op`'s CPU kernel with `args`; where `outputs` is not empty, copies the results into them.
/// Works for every op; the cost is a boxed call.
std::unique_ptr<Step> make_boxed_step(const c10::OperatorHandle& op, torch::jit::Stack args,
                                      std::vector<at::Tensor> outputs);

/// The tensors among values, lists of tensors taken apart, in order. Undefined ones are left out.
std::vector<at::Tensor> tensors_in(c10::ArrayRef<c10::IValue> values);

}  // namespace anyaccel::backends::cpu
