// A step of Adagrad over tensors in host memory.
#pragma once

#include <vector>

#include "ops/cpu_adagrad/kernels.h"
#include "ops/support/host_tensors.h"
#include "ops/support/parallel.h"

namespace anyaccel::ops {

inline void check_adagrad_numbers(const char* where, std::int64_t step, double lr, double eps, double weight_decay) {
  check_step(where, step, 0);
  check_number(where, "lr", lr, true, "a finite number");
  check_not_negative(where, "eps", eps);
  check_not_negative(where, "weight_decay", weight_decay);
}

/// What the kernel works on, after all checks; without addresses when `on_host` is false.
inline AdagradArrays adagrad_arrays(const char* where, const at::Tensor& params, const at::Tensor& grads,
                                    const at::Tensor& exp_avg_sq, bool on_host) {
  check_beside(where, "params", params, params, on_host);
  check_beside(where, "grads", grads, params, on_host);
  check_beside(where, "exp_avg_sq", exp_avg_sq, params, on_host);
  AdagradArrays out{};
  out.param = element_of(where, "params", params);
  out.grad = element_beside(where, "grads", grads, out.param);
  out.state = element_beside(where, "exp_avg_sq", exp_avg_sq, out.param);
  if (!on_host) return out;
  out.params = changed_memory(params);
  out.grads = grads.const_data_ptr();
  out.exp_avg_sq = changed_memory(exp_avg_sq);
  return out;
}

/// Checks all tensors of the lists, then updates them in one loop.
inline void adagrad_step_lists(const char* where, const AdagradConstants& constants, at::TensorList params,
                               at::TensorList grads, at::TensorList exp_avg_sq, bool on_host) {
  if (grads.size() != params.size() || exp_avg_sq.size() != params.size())
    refuse(where, "the lists differ in length", c10::str(params.size(), ", ", grads.size(), ", ", exp_avg_sq.size()),
           "equal lengths");
  std::vector<AdagradArrays> arrays;
  std::vector<std::int64_t> sizes;
  arrays.reserve(params.size());
  sizes.reserve(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    arrays.push_back(adagrad_arrays(where, params[i], grads[i], exp_avg_sq[i], on_host));
    if (on_host) sizes.push_back(params[i].numel());
  }
  if (!on_host) return;
  const Isa isa = best_isa();
  parallel_elements(sizes.data(), sizes.size(), optimizer_grain,
                    [&](std::size_t i, std::int64_t begin, std::int64_t end) {
                      adagrad_update(isa, constants, arrays[i], begin, end);
                    });
}

}  // namespace anyaccel::ops
