// Registers torch.ops.anyaccel.multi_tensor_lion for tensors in host memory.
#include "ops/shared/lion_step.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

template <bool on_host>
void multi_tensor_lion(std::int64_t /*chunk_size*/, const at::Tensor& /*noop_flag*/,
                       at::TensorList grads, at::TensorList params, at::TensorList exp_avg,
                       double lr, double beta1, double beta2, std::int64_t step,
                       double weight_decay) {
  constexpr const char* where = "multi_tensor_lion";
  check_lion_numbers(where, step, lr, beta1, beta2, weight_decay);
  lion_step_lists(where, lion_constants(lr, beta1, beta2, weight_decay), params, grads, exp_avg,
                  on_host);
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "multi_tensor_lion(int chunk_size, Tensor noop_flag, Tensor[] grads, Tensor(a!)[] params, "
      "Tensor(b!)[] exp_avg, "
      "float lr, float beta1, float beta2, int step, float weight_decay) -> ()");
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("multi_tensor_lion", multi_tensor_lion<true>); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("multi_tensor_lion", multi_tensor_lion<false>); }
// An optimizer step is not differentiable, and FusedLion passes parameters that require gradients.
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) {
  m.impl("multi_tensor_lion", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace anyaccel::ops
