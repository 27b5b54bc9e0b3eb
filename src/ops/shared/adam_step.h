// One Adam step on tensors in host memory. Shared by cpu_adam and fused_adam.
#pragma once

#include <vector>

#include "kernels/optimizer/adam.h"
#include "ops/shared/host_tensors.h"
#include "ops/shared/parallel.h"

namespace anyaccel::ops {

struct AdamNumbers {
  std::int64_t step;
  AdamOptions options;
};

inline void check_numbers(const char* where, const AdamNumbers& numbers) {
  const AdamOptions& o = numbers.options;
  check_step(where, numbers.step, o.bias_correction ? 1 : 0);
  check_number(where, "lr", o.lr, true, "a finite number");
  check_beta(where, "beta1", o.beta1);
  check_beta(where, "beta2", o.beta2);
  check_not_negative(where, "eps", o.eps);
  check_not_negative(where, "weight_decay", o.weight_decay);
}

/// Checks the tensors of one parameter and returns the kernel arguments, with the data pointers
/// left unset.
inline AdamArrays adam_checked(const char* where, const at::Tensor& params, const at::Tensor& grads,
                               const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                               bool on_host) {
  check_beside(where, "params", params, params, on_host);
  check_beside(where, "grads", grads, params, on_host);
  check_beside(where, "exp_avg", exp_avg, params, on_host);
  check_beside(where, "exp_avg_sq", exp_avg_sq, params, on_host);
  AdamArrays out{};
  out.param = element_of(where, "params", params);
  out.grad = element_beside(where, "grads", grads, out.param);
  out.state = element_beside(where, "exp_avg", exp_avg, out.param);
  if (exp_avg_sq.scalar_type() != exp_avg.scalar_type())
    fail_argument(where, "the dtypes of exp_avg and exp_avg_sq differ", words(exp_avg_sq),
                  words(exp_avg));
  return out;
}

/// Sets the data pointers. Call it after all checks, because it bumps the tensors' versions for
/// autograd.
inline void take_memory(AdamArrays& arrays, const at::Tensor& params, const at::Tensor& grads,
                        const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) {
  arrays.params = changed_memory(params);
  arrays.grads = grads.const_data_ptr();
  arrays.exp_avg = changed_memory(exp_avg);
  arrays.exp_avg_sq = changed_memory(exp_avg_sq);
}

/// Checks the tensors and returns the kernel arguments, with data pointers if `on_host` is set.
inline AdamArrays adam_arrays(const char* where, const at::Tensor& params, const at::Tensor& grads,
                              const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                              bool on_host) {
  AdamArrays out = adam_checked(where, params, grads, exp_avg, exp_avg_sq, on_host);
  if (on_host) take_memory(out, params, grads, exp_avg, exp_avg_sq);
  return out;
}

using AdamKernel = void (*)(Isa, const AdamConstants&, const AdamArrays&, std::int64_t,
                            std::int64_t) noexcept;

inline void adam_run(AdamKernel kernel, const AdamNumbers& numbers, const AdamArrays* arrays,
                     const std::int64_t* sizes, std::size_t count) {
  const AdamConstants constants = adam_constants(numbers.options, numbers.step);
  const Isa isa = best_isa();
  parallel_elements(sizes, count, optimizer_grain,
                    [&](std::size_t i, std::int64_t begin, std::int64_t end) {
                      kernel(isa, constants, arrays[i], begin, end);
                    });
}

/// Checks all tensors in the lists, and then updates them, or rolls the updates back, in one
/// parallel loop.
inline void adam_step_lists(const char* where, AdamKernel kernel, const AdamNumbers& numbers,
                            at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                            at::TensorList exp_avg_sq, bool on_host) {
  if (grads.size() != params.size() || exp_avg.size() != params.size() ||
      exp_avg_sq.size() != params.size())
    fail_argument(where, "the lists differ in length",
                  c10::str("lengths ", params.size(), ", ", grads.size(), ", ", exp_avg.size(),
                           ", ", exp_avg_sq.size()),
                  "equal lengths");
  check_numbers(where, numbers);
  std::vector<AdamArrays> arrays;
  std::vector<std::int64_t> sizes;
  arrays.reserve(params.size());
  sizes.reserve(params.size());
  for (std::size_t i = 0; i < params.size(); ++i)
    arrays.push_back(adam_checked(where, params[i], grads[i], exp_avg[i], exp_avg_sq[i], on_host));
  if (!on_host) return;
  for (std::size_t i = 0; i < params.size(); ++i) {
    take_memory(arrays[i], params[i], grads[i], exp_avg[i], exp_avg_sq[i]);
    sizes.push_back(params[i].numel());
  }
  adam_run(kernel, numbers, arrays.data(), sizes.data(), sizes.size());
}

}  // namespace anyaccel::ops
