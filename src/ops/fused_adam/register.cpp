// Registers torch.ops.anyaccel.multi_tensor_adam for tensors in host memory.
#include "ops/shared/adam_step.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

template <bool on_host>
void multi_tensor_adam(std::int64_t /*chunk_size*/, const at::Tensor& /*noop_flag*/,
                       at::TensorList grads, at::TensorList params, at::TensorList exp_avg,
                       at::TensorList exp_avg_sq, double lr, double beta1, double beta2, double eps,
                       std::int64_t step, std::int64_t mode, std::int64_t bias_correction,
                       double weight_decay) {
  constexpr const char* where = "multi_tensor_adam";
  if (mode != 0 && mode != 1)
    fail_argument(where, "the mode is out of range", std::to_string(mode),
                  "0 (L2 decay) or 1 (decoupled decay)");
  adam_step_lists(where, adam_update,
                  {step, {lr, beta1, beta2, eps, weight_decay, bias_correction != 0, mode == 1}},
                  params, grads, exp_avg, exp_avg_sq, on_host);
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "multi_tensor_adam(int chunk_size, Tensor noop_flag, Tensor[] grads, Tensor(a!)[] params, "
      "Tensor(b!)[] exp_avg, "
      "Tensor(c!)[] exp_avg_sq, float lr, float beta1, float beta2, float eps, int step, int "
      "decay_mode, int "
      "bias_correction, "
      "float weight_decay) -> ()");
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("multi_tensor_adam", multi_tensor_adam<true>); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("multi_tensor_adam", multi_tensor_adam<false>); }
// An optimizer step is not differentiable, and FusedAdam passes parameters that require gradients.
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("multi_tensor_adam", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace anyaccel::ops
