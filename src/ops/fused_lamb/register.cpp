// Registers torch.ops.anyaccel.lamb for tensors in host memory.
#include <ATen/ops/empty.h>

#include <cmath>
#include <vector>

#include "ops/fused_lamb/kernels.h"
#include "ops/support/host_tensors.h"
#include "ops/support/parallel.h"
#include "torch/library.h"

namespace anyaccel::ops {
namespace {

LambArrays arrays_of(const at::Tensor& p, const at::Tensor& p_copy, const at::Tensor& m, const at::Tensor& v,
                     const at::Tensor& g, bool on_host) {
  constexpr const char* where = "lamb";
  check_beside(where, "p", p, p, on_host);
  check_beside(where, "m", m, p, on_host);
  check_beside(where, "v", v, p, on_host);
  check_beside(where, "g", g, p, on_host);
  LambArrays out{};
  out.param = element_of(where, "p", p);
  out.grad = out.param == Element::f32 ? element_of(where, "g", g) : element_beside(where, "g", g, out.param);
  out.state = element_beside(where, "m", m, out.param);
  if (v.scalar_type() != m.scalar_type()) refuse(where, "the dtypes of m and v differ", words(v), words(m));
  if (!on_host) return out;
  if (p_copy.numel() > 0) {
    check_beside(where, "p_copy", p_copy, p, on_host);
    out.copied = element_of(where, "p_copy", p_copy);
    out.copy = changed_memory(p_copy);
  }
  out.params = changed_memory(p);
  out.exp_avg = changed_memory(m);
  out.exp_avg_sq = changed_memory(v);
  out.grads = g.const_data_ptr();
  return out;
}

/// DeepSpeed's: the ratio of the norms, held between the bounds; 1 where a norm is 0.
float coefficient(const LambNorms& norms, double max_coeff, double min_coeff) {
  const double weight = std::sqrt(norms.params);
  const double update = std::sqrt(norms.update);
  if (weight == 0 || update == 0) return 1;
  const double ratio = weight / update;
  return static_cast<float>(ratio > max_coeff ? max_coeff : ratio < min_coeff ? min_coeff : ratio);
}

template <bool on_host>
at::Tensor lamb(const at::Tensor& p, const at::Tensor& p_copy, const at::Tensor& m, const at::Tensor& v,
                const at::Tensor& g, double lr, double beta1, double beta2, double max_coeff, double min_coeff,
                double eps, double grad_scale, std::int64_t step, std::int64_t mode, std::int64_t bias_correction,
                double decay) {
  constexpr const char* where = "lamb";
  check_step(where, step, bias_correction != 0 ? 1 : 0);
  check_number(where, "lr", lr, true, "a finite number");
  check_beta(where, "beta1", beta1);
  check_beta(where, "beta2", beta2);
  check_not_negative(where, "eps", eps);
  check_not_negative(where, "decay", decay);
  check_number(where, "grad_scale", grad_scale, grad_scale != 0, "not 0");
  if (mode != 0 && mode != 1)
    refuse(where, "the mode is out of range", std::to_string(mode), "0 (eps below the root) or 1 (beside it)");
  const LambArrays arrays = arrays_of(p, p_copy, m, v, g, on_host);
  at::Tensor out = at::empty({1}, p.options().dtype(at::kFloat).requires_grad(false));
  if (!on_host) return out;
  const auto rounded = [](double value) { return static_cast<float>(value); };
  const LambConstants constants = {.beta1 = rounded(beta1),
                                   .one_minus_beta1 = rounded(1 - beta1),
                                   .beta2 = rounded(beta2),
                                   .one_minus_beta2 = rounded(1 - beta2),
                                   .eps = rounded(eps),
                                   .grad_scale = rounded(grad_scale),
                                   .decay = rounded(decay),
                                   .eps_inside = mode == 0};
  const Isa isa = best_isa();
  const std::int64_t size = p.numel();
  const std::int64_t blocks = (size + lamb_block - 1) / lamb_block;
  std::vector<LambNorms> sums(static_cast<std::size_t>(blocks));
  // Ranges of the loop are whole blocks, because those are a multiple of its own.
  parallel_elements(
      &size, 1, optimizer_grain,
      [&](std::size_t, std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end;) {
          const std::int64_t stop = std::min(end, (at / lamb_block + 1) * lamb_block);
          const LambNorms part = lamb_moments(isa, constants, arrays, at, stop);
          sums[static_cast<std::size_t>(at / lamb_block)] = part;
          at = stop;
        }
      },
      lamb_block);
  LambNorms norms;
  for (const LambNorms& part : sums) {
    norms.params += part.params;
    norms.update += part.update;
  }
  const float found = coefficient(norms, max_coeff, min_coeff);
  double step_size = lr;
  if (bias_correction != 0)
    step_size *=
        std::sqrt(1 - std::pow(beta2, static_cast<double>(step))) / (1 - std::pow(beta1, static_cast<double>(step)));
  const float rate = rounded(step_size * static_cast<double>(found));
  parallel_elements(&size, 1, optimizer_grain, [&](std::size_t, std::int64_t begin, std::int64_t end) {
    lamb_apply(isa, constants, rate, arrays, begin, end);
  });
  *out.mutable_data_ptr<float>() = found;
  return out;
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def(
      "lamb(Tensor(a!) p, Tensor(b!) p_copy, Tensor(c!) m, Tensor(d!) v, Tensor g, float lr, float beta1, float beta2, "
      "float max_coeff, float min_coeff, float eps, float grad_scale, int step, int eps_mode, int bias_correction, "
      "float decay) -> Tensor");
}

TORCH_LIBRARY_IMPL(anyaccel, CPU, m) { m.impl("lamb", lamb<true>); }
TORCH_LIBRARY_IMPL(anyaccel, Meta, m) { m.impl("lamb", lamb<false>); }
// An optimizer's step is not differentiable.
TORCH_LIBRARY_IMPL(anyaccel, Autograd, m) { m.impl("lamb", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace anyaccel::ops
