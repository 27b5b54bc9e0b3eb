// Adagrad for parameters in host memory. A step makes one pass over memory, with the widest
// available vector instructions and torch's threads. Link `anyaccel::ops`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Options, with the same defaults as DeepSpeedCPUAdagrad.
struct CPUAdagradOptions {
  double lr = 1e-2;  ///< any finite number
  /// Epsilon, added to the denominator.
  double eps = 1e-10;
  double weight_decay = 0;  ///< L2 decay, added to the gradient; 0 or more
};

/// Adagrad (Duchi et al., JMLR 12, 2011) for parameters in host memory. Holds options and the
/// number of steps; the caller owns the tensors and passes the same ones to each step.
///
/// Each list has one entry per parameter, with the parameter's shape. All tensors are dense and in
/// host memory, regardless of the accelerator. Parameters are float32, bfloat16 or float16.
/// Gradients and state are float32 or have the parameters' dtype. The caller initializes the state
/// to zeros.
///
/// Accuracy: arithmetic is in float32. Compared with exact arithmetic on the same input, the error
/// of a parameter is at most 2^-23 |p| + 2^-20 lr |g| / divisor plus the rounding to its dtype,
/// where g includes the decay. The relative error of the state is at most 2^-21, plus its rounding.
/// The square of a gradient of magnitude below 1e-19 underflows to 0. Results are bit-identical for
/// any number of threads, alignment and instruction set.
///
/// Throws `invalid_argument` for invalid options or tensors; the tensors are then unchanged. Not
/// thread-safe.
class ANYACCEL_API CPUAdagrad {
 public:
  /// Load the op, building it first if necessary. Throws `build_failed` or `unavailable` if that
  /// fails.
  explicit CPUAdagrad(const CPUAdagradOptions& options = {});
  ~CPUAdagrad();
  CPUAdagrad(const CPUAdagrad&) = delete;
  CPUAdagrad& operator=(const CPUAdagrad&) = delete;

  /// Perform one step and increment steps(). `exp_avg_sq`: the sums of squared gradients.
  void step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg_sq);

  /// Options. They may change between steps.
  CPUAdagradOptions& options() noexcept { return options_; }
  /// Number of steps taken.
  std::int64_t steps() const noexcept { return steps_; }
  /// Set the number of steps, to resume training.
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  CPUAdagradOptions options_;
  std::int64_t steps_ = 0;
  std::int64_t id_;
};

}  // namespace anyaccel::ops
