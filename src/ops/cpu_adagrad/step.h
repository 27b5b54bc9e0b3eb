// One Adagrad step on tensors in host memory.
#pragma once

#include "kernels/optimizer/adagrad.h"
#include "ops/shared/one_state_step.h"

namespace anyaccel::ops {

inline void check_adagrad_numbers(const char* where, std::int64_t step, double lr, double eps,
                                  double weight_decay) {
  check_step(where, step, 0);
  check_number(where, "lr", lr, true, "a finite number");
  check_not_negative(where, "eps", eps);
  check_not_negative(where, "weight_decay", weight_decay);
}

/// Checks all tensors in the lists, then updates them in one parallel loop.
inline void adagrad_step_lists(const char* where, const AdagradConstants& constants,
                               at::TensorList params, at::TensorList grads,
                               at::TensorList exp_avg_sq, bool on_host) {
  one_state_step_lists({where, "exp_avg_sq"}, adagrad_update, constants, params, grads, exp_avg_sq,
                       on_host);
}

}  // namespace anyaccel::ops
