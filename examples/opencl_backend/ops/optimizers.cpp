// Optimizer steps in one kernel per parameter. torch.optim.AdamW(fused=True) calls _fused_adamw_.
#include <c10/core/DeviceGuard.h>

#include "ops/ops.h"

namespace ocl_backend {
namespace {

using at::Tensor;
using at::TensorList;

/// Argument of the kernel; opencl/adamw.cl declares the same structure.
struct Settings {
  cl_uint count;
  cl_float rate, beta1, beta2, decay, eps;
  cl_int maximize, amsgrad;
};

void fused_adamw(TensorList parameters, TensorList gradients, TensorList averages,
                 TensorList squares, TensorList largest, TensorList steps, double rate,
                 double beta1, double beta2, double decay, double eps, bool amsgrad, bool maximize,
                 const std::optional<Tensor>& scale, const std::optional<Tensor>& found_infinity) {
  bool simple = !(scale && scale->defined()) && !(found_infinity && found_infinity->defined());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const auto& tensor : {parameters[i], gradients[i], averages[i], squares[i]})
      simple = simple && tensor.scalar_type() == at::kFloat && tensor.is_contiguous() &&
               tensor.device() == parameters[0].device() &&
               tensor.numel() <= std::numeric_limits<std::int32_t>::max();
    simple = simple && steps[i].scalar_type() == at::kFloat &&
             steps[i].device() == parameters[0].device();
  }
  if (!simple || parameters.empty())
    return host_op<at::_ops::_fused_adamw_>(parameters, gradients, averages, squares, largest,
                                            steps, rate, beta1, beta2, decay, eps, amsgrad,
                                            maximize, scale, found_infinity);
  const c10::DeviceGuard guard(parameters[0].device());
  const auto device = parameters[0].device().index();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].numel() == 0) continue;
    const Settings settings{static_cast<cl_uint>(parameters[i].numel()),
                            static_cast<cl_float>(rate),
                            static_cast<cl_float>(beta1),
                            static_cast<cl_float>(beta2),
                            static_cast<cl_float>(decay),
                            static_cast<cl_float>(eps),
                            maximize,
                            amsgrad};
    // torch's callers have already increased `steps`.
    Launch(kernel("adamw.cl", "adamw"), device)
        .args(settings, out(parameters[i]), in(gradients[i]), out(averages[i]), out(squares[i]),
              out(amsgrad ? largest[i] : squares[i]), in(steps[i]))
        .run(static_cast<std::size_t>(parameters[i].numel()), 64);
  }
}

}  // namespace

void register_optimizers(torch::Library& library) {
  library.impl("_fused_adamw_", TORCH_FN(fused_adamw));
}

}  // namespace ocl_backend
