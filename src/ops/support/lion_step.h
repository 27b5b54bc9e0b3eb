// A step of Lion over tensors in host memory: what cpu_lion and fused_lion share.
#pragma once

#include <vector>

#include "ops/support/host_tensors.h"
#include "ops/support/lion_kernels.h"
#include "ops/support/parallel.h"

namespace anyaccel::ops {

inline void check_lion_numbers(const char* where, std::int64_t step, double lr, double beta1, double beta2,
                               double weight_decay) {
  check_step(where, step, 0);
  check_number(where, "lr", lr, true, "a finite number");
  check_beta(where, "beta1", beta1);
  check_beta(where, "beta2", beta2);
  check_not_negative(where, "weight_decay", weight_decay);
}

/// What the kernel works on, after all checks; without addresses when `on_host` is false.
inline LionArrays lion_arrays(const char* where, const at::Tensor& params, const at::Tensor& grads,
                              const at::Tensor& exp_avg, bool on_host) {
  check_beside(where, "params", params, params, on_host);
  check_beside(where, "grads", grads, params, on_host);
  check_beside(where, "exp_avg", exp_avg, params, on_host);
  LionArrays out{};
  out.param = element_of(where, "params", params);
  out.grad = element_beside(where, "grads", grads, out.param);
  out.state = element_beside(where, "exp_avg", exp_avg, out.param);
  if (!on_host) return out;
  out.params = changed_memory(params);
  out.grads = grads.const_data_ptr();
  out.exp_avg = changed_memory(exp_avg);
  return out;
}

/// Checks all tensors of the lists, then updates them in one loop.
inline void lion_step_lists(const char* where, const LionConstants& constants, at::TensorList params,
                            at::TensorList grads, at::TensorList exp_avg, bool on_host) {
  if (grads.size() != params.size() || exp_avg.size() != params.size())
    refuse(where, "the lists differ in length", c10::str(params.size(), ", ", grads.size(), ", ", exp_avg.size()),
           "equal lengths");
  std::vector<LionArrays> arrays;
  std::vector<std::int64_t> sizes;
  arrays.reserve(params.size());
  sizes.reserve(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    arrays.push_back(lion_arrays(where, params[i], grads[i], exp_avg[i], on_host));
    if (on_host) sizes.push_back(params[i].numel());
  }
  if (!on_host) return;
  const Isa isa = best_isa();
  parallel_elements(
      sizes.data(), sizes.size(), optimizer_grain,
      [&](std::size_t i, std::int64_t begin, std::int64_t end) { lion_update(isa, constants, arrays[i], begin, end); });
}

}  // namespace anyaccel::ops
