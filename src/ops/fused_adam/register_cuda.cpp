// Registers torch.ops.anyaccel.multi_tensor_adam for tensors on CUDA devices. Untested on hardware.
#include "kernels/optimizer/cuda_optimizers.h"
#include "ops/shared/adam_step.h"
#include "ops/shared/device_tensors.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void multi_tensor_adam_cuda(std::int64_t chunk_size, const at::Tensor& /*noop_flag*/,
                            at::TensorList grads, at::TensorList params, at::TensorList exp_avg,
                            at::TensorList exp_avg_sq, double lr, double beta1, double beta2,
                            double eps, std::int64_t step, std::int64_t mode,
                            std::int64_t bias_correction, double weight_decay) {
  constexpr const char* where = "multi_tensor_adam";
  check_chunk_size(where, chunk_size);
  if (mode != 0 && mode != 1)
    fail_argument(where, "the mode is out of range", std::to_string(mode),
                  "0 (L2 decay) or 1 (decoupled decay)");
  const AdamNumbers numbers = {
      step, {lr, beta1, beta2, eps, weight_decay, bias_correction != 0, mode == 1}};
  check_numbers(where, numbers);
  check_equal_lengths(where, params, {grads, exp_avg, exp_avg_sq});
  if (params.empty()) return;
  std::vector<AdamArrays> arrays;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < params.size(); ++i) {
    arrays.push_back(adam_checked(where, params[i], grads[i], exp_avg[i], exp_avg_sq[i], false));
    check_on_device(where, "params", params[i], params[i]);
    check_on_device(where, "grads", grads[i], params[i]);
    check_on_device(where, "exp_avg", exp_avg[i], params[i]);
    check_on_device(where, "exp_avg_sq", exp_avg_sq[i], params[i]);
    check_same_device(where, params[i], params[0]);
    sizes.push_back(params[i].numel());
  }
  for (std::size_t i = 0; i < params.size(); ++i)
    take_memory(arrays[i], params[i], grads[i], exp_avg[i], exp_avg_sq[i]);
  const c10::DeviceGuard guard(params[0].device());
  check_launch(where, cuda_adam(adam_constants(numbers.options, step), arrays.data(), sizes.data(),
                                sizes.size(), chunk_size, current_stream(params[0].device())));
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) { m.impl("multi_tensor_adam", multi_tensor_adam_cuda); }

}  // namespace
}  // namespace anyaccel::ops
