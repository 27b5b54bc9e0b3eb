// Registers torch.ops.anyaccel.multi_tensor_lion for tensors on CUDA devices. Untested on hardware.
#include "kernels/optimizer/cuda_optimizers.h"
#include "ops/shared/device_tensors.h"
#include "ops/shared/lion_step.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

void multi_tensor_lion_cuda(std::int64_t chunk_size, const at::Tensor& /*noop_flag*/,
                            at::TensorList grads, at::TensorList params, at::TensorList exp_avg,
                            double lr, double beta1, double beta2, std::int64_t step,
                            double weight_decay) {
  constexpr const char* where = "multi_tensor_lion";
  check_chunk_size(where, chunk_size);
  check_lion_numbers(where, step, lr, beta1, beta2, weight_decay);
  check_equal_lengths(where, params, {grads, exp_avg});
  if (params.empty()) return;
  std::vector<OneStateArrays> arrays;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < params.size(); ++i) {
    arrays.push_back(one_state_checked({where, "exp_avg"}, params[i], grads[i], exp_avg[i], false));
    check_on_device(where, "params", params[i], params[i]);
    check_on_device(where, "grads", grads[i], params[i]);
    check_on_device(where, "exp_avg", exp_avg[i], params[i]);
    check_same_device(where, params[i], params[0]);
    sizes.push_back(params[i].numel());
  }
  for (std::size_t i = 0; i < params.size(); ++i)
    take_memory(arrays[i], params[i], grads[i], exp_avg[i]);
  const c10::DeviceGuard guard(params[0].device());
  check_launch(
      where, cuda_lion(lion_constants(lr, beta1, beta2, weight_decay), arrays.data(), sizes.data(),
                       sizes.size(), chunk_size, current_stream(params[0].device())));
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) { m.impl("multi_tensor_lion", multi_tensor_lion_cuda); }

}  // namespace
}  // namespace anyaccel::ops
