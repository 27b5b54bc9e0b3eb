// Adam and AdamW for parameters in host memory, many times as fast as a loop of tensor ops: one
// pass over memory, with the processor's widest vectors and torch's threads. Link `anyaccel::ops`.
// docs/reference/ops.md has the Python side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// As torch.optim.AdamW's and DeepSpeedCPUAdam's.
struct CPUAdamOptions {
  double lr = 1e-3;  ///< any finite number
  double beta1 = 0.9;
  double beta2 = 0.999;  ///< both in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0;  ///< 0 or more
  bool bias_correction = true;
  bool adamw_mode = true;  ///< decoupled decay; false: it is added to the gradient (L2)
};

/// One optimizer: options and the number of steps taken. Tensors stay the caller's, who passes the
/// same ones each time.
///
/// Of each tensor the four lists have one entry, of one shape, dense and in host memory, whatever
/// the accelerator: parameters of float32, bfloat16 or float16; gradients of float32 or the
/// parameters' dtype; both states, which begin as zeros, of float32 or the parameters' dtype.
/// Arithmetic is in float32. Compared with exact arithmetic on the same input a parameter is off by
/// at most
///     2^-22 |p| + 2^-20 lr / (1 - beta1^step) (beta1 |m| + (1 - beta1) |g|) / divisor
/// plus the rounding to its dtype, where g includes L2 decay; the states by 2^-22 and 2^-21 of the
/// sum of the sizes of their two terms. Results have the same bits for any number of threads,
/// alignment and instruction set. Infinity and not-a-number go where the formulas take them; the
/// square of a gradient overflows from 1.8e19 on, as in torch.
///
/// Errors are `invalid_argument`; then nothing was changed. An object is for one thread at a time.
class ANYACCEL_API CPUAdam {
 public:
  /// Loads the op first if need be, which may compile it: `build_failed` or `unavailable` when that
  /// cannot be.
  explicit CPUAdam(const CPUAdamOptions& options = {});
  ~CPUAdam();
  CPUAdam(const CPUAdam&) = delete;
  CPUAdam& operator=(const CPUAdam&) = delete;

  /// One step. Counts one more step unless it throws.
  void step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
            at::TensorList exp_avg_sq);
  /// Undoes the last step, given what it was given, as well as rounding allows. A parameter that
  /// would not be finite becomes 0. `invalid_state` before the first step.
  void rollback(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                at::TensorList exp_avg_sq);

  /// May be changed between steps, but for adamw_mode, which the constructor keeps.
  CPUAdamOptions& options() noexcept { return options_; }
  /// Steps taken; to be set when a training is resumed.
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  CPUAdamOptions options_;
  std::int64_t steps_ = 0;
  std::int64_t id_;
};

}  // namespace anyaccel::ops
