// Adagrad for parameters in host memory: one pass over memory, with the processor's widest vectors
// and torch's threads. Link `anyaccel::ops`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// As DeepSpeedCPUAdagrad's. Decay is 0 or more.
struct CPUAdagradOptions {
  double lr = 1e-2;  ///< any finite number
  double eps = 1e-10;
  double weight_decay = 0;  ///< L2: added to the gradient
};

/// One optimizer: options and the number of steps taken. Tensors stay the caller's, who passes the
/// same ones each time.
///
/// Of each tensor the lists have one entry, of one shape, dense and in host memory, whatever the
/// accelerator: parameters of float32, bfloat16 or float16; gradients of float32 or the parameters'
/// dtype; the state, which begins as zeros, of float32 or the parameters' dtype. Arithmetic is in
/// float32. Compared with exact arithmetic on the same input a parameter is off by at most 2^-23
/// |p| + 2^-20 lr |g| / divisor plus the rounding to its dtype, where g includes the decay; the
/// state by 2^-21 of itself, plus its rounding. A gradient below 1e-19 has the square 0. Results
/// have the same bits for any number of threads, alignment and instruction set.
///
/// Errors are `invalid_argument`; then nothing was changed. An object is for one thread at a time.
class ANYACCEL_API CPUAdagrad {
 public:
  /// Loads the op first if need be, which may compile it: `build_failed` or `unavailable` when that
  /// cannot be.
  explicit CPUAdagrad(const CPUAdagradOptions& options = {});
  ~CPUAdagrad();
  CPUAdagrad(const CPUAdagrad&) = delete;
  CPUAdagrad& operator=(const CPUAdagrad&) = delete;

  /// One step. Counts one more step unless it throws.
  void step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg_sq);

  /// May be changed between steps.
  CPUAdagradOptions& options() noexcept { return options_; }
  /// Steps taken; to be set when a training is resumed.
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  CPUAdagradOptions options_;
  std::int64_t steps_ = 0;
  std::int64_t id_;
};

}  // namespace anyaccel::ops
