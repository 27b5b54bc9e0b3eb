// One Lion step on tensors in host memory. Shared by cpu_lion and fused_lion.
#pragma once

#include "kernels/optimizer/lion.h"
#include "ops/shared/one_state_step.h"

namespace anyaccel::ops {

inline void check_lion_numbers(const char* where, std::int64_t step, double lr, double beta1,
                               double beta2, double weight_decay) {
  check_step(where, step, 0);
  check_number(where, "lr", lr, true, "a finite number");
  check_beta(where, "beta1", beta1);
  check_beta(where, "beta2", beta2);
  check_not_negative(where, "weight_decay", weight_decay);
}

/// Checks all tensors in the lists, then updates them in one parallel loop.
inline void lion_step_lists(const char* where, const LionConstants& constants,
                            at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                            bool on_host) {
  one_state_step_lists({where, "exp_avg"}, lion_update, constants, params, grads, exp_avg, on_host);
}

}  // namespace anyaccel::ops
