// Registers torch.ops.anyaccel.lamb for tensors in host memory.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "ops/fused_lamb/step.h"
#include "ops/shared/parallel.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

/// Updates the parameters and returns the trust ratio.
float step_on_host(const LambConstants& constants, const LambBounds& bounds,
                   const LambArrays& arrays, std::int64_t size) {
  const Isa isa = best_isa();
  std::vector<LambNorms> parts(static_cast<std::size_t>((size + lamb_block - 1) / lamb_block));
  // Pass lamb_block as the block size, so that each range consists of whole blocks.
  parallel_elements(
      &size, 1, optimizer_grain,
      [&](std::size_t, std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; at += lamb_block)
          parts[static_cast<std::size_t>(at / lamb_block)] =
              lamb_moments(isa, constants, arrays, at, std::min(end, at + lamb_block));
      },
      lamb_block);
  LambNorms lanes[lamb_lanes];
  lamb_total(parts.data(), static_cast<std::int64_t>(parts.size()), lanes, HostThreads{});
  const LambRate rate = lamb_rate(lanes[0], bounds);
  parallel_elements(&size, 1, optimizer_grain,
                    [&](std::size_t, std::int64_t begin, std::int64_t end) {
                      lamb_apply(isa, constants, rate.rate, arrays, begin, end);
                    });
  return rate.coefficient;
}

template <bool on_host>
at::Tensor lamb(const at::Tensor& p, const at::Tensor& p_copy, const at::Tensor& m,
                const at::Tensor& v, const at::Tensor& g, double lr, double beta1, double beta2,
                double max_coeff, double min_coeff, double eps, double grad_scale,
                std::int64_t step, std::int64_t mode, std::int64_t bias_correction, double decay) {
  constexpr const char* where = "lamb";
  const LambNumbers numbers = {lr,         beta1, beta2, max_coeff,       min_coeff, eps,
                               grad_scale, step,  mode,  bias_correction, decay};
  const LambTensors tensors = {p, p_copy, m, v, g};
  check_lamb_numbers(where, numbers);
  LambArrays arrays =
      lamb_checked(where, tensors, !on_host, [&](const char* name, const at::Tensor& tensor) {
        if (on_host) check_beside(where, name, tensor, p, true);
      });
  at::Tensor out = at::empty({1}, p.options().dtype(at::kFloat).requires_grad(false));
  if (!on_host) return out;
  take_memory(arrays, tensors);
  *out.mutable_data_ptr<float>() =
      step_on_host(lamb_constants(numbers), lamb_bounds(numbers), arrays, p.numel());
  return out;
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "lamb(Tensor(a!) p, Tensor(b!) p_copy, Tensor(c!) m, Tensor(d!) v, Tensor g, float lr, float "
      "beta1, float beta2, "
      "float max_coeff, float min_coeff, float eps, float grad_scale, int step, int eps_mode, int "
      "bias_correction, "
      "float decay) -> Tensor");
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("lamb", lamb<true>); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("lamb", lamb<false>); }
// An optimizer step is not differentiable.
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) { m.impl("lamb", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace anyaccel::ops
