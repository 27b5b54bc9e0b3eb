// Registers torch.ops.anyaccel.lamb for tensors on CUDA devices. Untested on hardware.
#include <ATen/ops/empty.h>

#include "kernels/optimizer/cuda_lamb.h"
#include "ops/fused_lamb/step.h"
#include "ops/shared/device_tensors.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

at::Tensor lamb_cuda(const at::Tensor& p, const at::Tensor& p_copy, const at::Tensor& m,
                     const at::Tensor& v, const at::Tensor& g, double lr, double beta1,
                     double beta2, double max_coeff, double min_coeff, double eps,
                     double grad_scale, std::int64_t step, std::int64_t mode,
                     std::int64_t bias_correction, double decay) {
  constexpr const char* where = "lamb";
  const LambNumbers numbers = {lr,         beta1, beta2, max_coeff,       min_coeff, eps,
                               grad_scale, step,  mode,  bias_correction, decay};
  const LambTensors tensors = {p, p_copy, m, v, g};
  check_lamb_numbers(where, numbers);
  LambArrays arrays = lamb_checked(
      where, tensors, false,
      [&](const char* name, const at::Tensor& tensor) { check_on_device(where, name, tensor, p); });
  const c10::DeviceGuard guard(p.device());
  const auto options = p.options().requires_grad(false);
  at::Tensor out = at::empty({1}, options.dtype(at::kFloat));
  // The tensor is freed before the kernels have run. This is safe, because torch's allocator reuses
  // the memory only for later work on the same stream.
  const at::Tensor scratch = at::empty({cuda_lamb_scratch(p.numel())}, options.dtype(at::kDouble));
  take_memory(arrays, tensors);
  check_launch(where, cuda_lamb(lamb_constants(numbers), lamb_bounds(numbers), arrays, p.numel(),
                                scratch.mutable_data_ptr(), out.mutable_data_ptr<float>(),
                                current_stream(p.device())));
  return out;
}

TORCH_LIBRARY_IMPL(anyaccel, CUDA, m) { m.impl("lamb", lamb_cuda); }

}  // namespace
}  // namespace anyaccel::ops
