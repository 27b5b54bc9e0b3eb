// Argument checks and constants for a LAMB step, on any device.
#pragma once

#include <cmath>

#include "kernels/optimizer/lamb_blocks.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

/// The hyperparameters, as DeepSpeed's Python code passes them.
struct LambNumbers {
  double lr, beta1, beta2, max_coeff, min_coeff, eps, grad_scale;
  std::int64_t step, mode, bias_correction;
  double decay;
};

inline void check_lamb_numbers(const char* where, const LambNumbers& n) {
  check_step(where, n.step, n.bias_correction != 0 ? 1 : 0);
  check_number(where, "lr", n.lr, true, "a finite number");
  check_beta(where, "beta1", n.beta1);
  check_beta(where, "beta2", n.beta2);
  check_not_negative(where, "eps", n.eps);
  check_not_negative(where, "decay", n.decay);
  check_number(where, "grad_scale", n.grad_scale, static_cast<float>(n.grad_scale) != 0,
               "a number that is nonzero in float32");
  if (!(n.min_coeff <= n.max_coeff))
    fail_argument(where, "min_coeff is above max_coeff",
                  c10::str(n.min_coeff, " and ", n.max_coeff), "min_coeff <= max_coeff");
  if (n.mode != 0 && n.mode != 1)
    fail_argument(where, "the mode is out of range", std::to_string(n.mode),
                  "0 (eps inside the square root) or 1 (outside)");
}

inline LambConstants lamb_constants(const LambNumbers& n) {
  const auto rounded = [](double value) { return static_cast<float>(value); };
  return {.beta1 = rounded(n.beta1),
          .one_minus_beta1 = rounded(1 - n.beta1),
          .beta2 = rounded(n.beta2),
          .one_minus_beta2 = rounded(1 - n.beta2),
          .eps = rounded(n.eps),
          .grad_scale = rounded(n.grad_scale),
          .decay = rounded(n.decay),
          .eps_inside = n.mode == 0};
}

inline LambBounds lamb_bounds(const LambNumbers& n) {
  double step_size = n.lr;
  if (n.bias_correction != 0) {
    const auto step = static_cast<double>(n.step);
    step_size *= std::sqrt(1 - std::pow(n.beta2, step)) / (1 - std::pow(n.beta1, step));
  }
  return {step_size, n.max_coeff, n.min_coeff};
}

struct LambTensors {
  const at::Tensor &p, &p_copy, &m, &v, &g;
};

/// Checks all tensors and returns the kernel arguments, with the data pointers left unset.
/// `check_place(name, tensor)` checks the device of a tensor. An empty p_copy means that there is
/// no copy; it may be on any device, because DeepSpeed's Python code passes an empty tensor in host
/// memory. With `meta`, the size of p_copy is not read, because it may be symbolic.
template <typename CheckPlace>
LambArrays lamb_checked(const char* where, const LambTensors& t, bool meta,
                        const CheckPlace& check_place) {
  const auto check = [&](const char* name, const at::Tensor& tensor) {
    check_beside(where, name, tensor, t.p, false);
    check_place(name, tensor);
  };
  check("p", t.p);
  check("m", t.m);
  check("v", t.v);
  check("g", t.g);
  LambArrays out{};
  out.param = element_of(where, "p", t.p);
  out.grad = out.param == Element::f32 ? element_of(where, "g", t.g)
                                       : element_beside(where, "g", t.g, out.param);
  out.state = element_beside(where, "m", t.m, out.param);
  if (t.v.scalar_type() != t.m.scalar_type())
    fail_argument(where, "the dtypes of m and v differ", words(t.v), words(t.m));
  if (meta || t.p_copy.numel() == 0) return out;
  check("p_copy", t.p_copy);
  out.copied = element_of(where, "p_copy", t.p_copy);
  return out;
}

/// Sets the data pointers. Call it after all checks, because it bumps the tensors' versions for
/// autograd.
inline void take_memory(LambArrays& arrays, const LambTensors& t) {
  if (t.p_copy.numel() > 0) arrays.copy = changed_memory(t.p_copy);
  arrays.params = changed_memory(t.p);
  arrays.exp_avg = changed_memory(t.m);
  arrays.exp_avg_sq = changed_memory(t.v);
  arrays.grads = t.g.const_data_ptr();
}

}  // namespace anyaccel::ops
