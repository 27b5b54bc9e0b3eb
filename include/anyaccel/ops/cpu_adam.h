// Adam and AdamW for parameters in host memory. A step makes one pass over memory, with the widest
// available vector instructions and torch's threads. This is many times faster than a loop of
// tensor ops. Link `anyaccel::ops`. docs/reference/ops.md describes the Python interface.
//
//     ops::CPUAdam adam({.lr = 1e-3, .weight_decay = 0.01});
//     adam.step(params, grads, exp_avg, exp_avg_sq);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Options, with the same defaults as DeepSpeedCPUAdam.
struct CPUAdamOptions {
  double lr = 1e-3;  ///< any finite number
  /// Decay of the first moment, in [0, 1).
  double beta1 = 0.9;
  /// Decay of the second moment, in [0, 1).
  double beta2 = 0.999;
  /// Epsilon, added to the denominator.
  double eps = 1e-8;
  double weight_decay = 0;  ///< 0 or more
  /// Correct the bias caused by initializing the moments to zero.
  bool bias_correction = true;
  /// Decoupled weight decay (AdamW); false: L2 decay, added to the gradient.
  bool adamw_mode = true;
};

/// Adam (Kingma and Ba, arXiv:1412.6980) and AdamW (Loshchilov and Hutter, arXiv:1711.05101) for
/// parameters in host memory. Holds options and the number of steps; the caller owns the tensors
/// and passes the same ones to each step.
///
/// Each list has one entry per parameter, with the parameter's shape. All tensors are dense and in
/// host memory, regardless of the accelerator. Parameters are float32, bfloat16 or float16.
/// Gradients and both states are float32 or have the parameters' dtype. The caller initializes the
/// states to zeros.
///
/// Accuracy: arithmetic is in float32. Compared with exact arithmetic on the same input, the error
/// of a parameter is at most
///
///     2^-22 |p| + 2^-20 lr / (1 - beta1^step) (beta1 |m| + (1 - beta1) |g|) / divisor
///
/// plus the rounding to its dtype, where g includes L2 decay. The errors of the states are at most
/// 2^-22 and 2^-21 of the sum of the magnitudes of their two terms. Results are bit-identical for
/// any number of threads, alignment and instruction set. Infinities and NaN propagate. The square
/// of a gradient overflows at magnitudes of 1.8e19 and above, as in torch.
///
/// Throws `invalid_argument` for invalid options or tensors; the tensors are then unchanged. Not
/// thread-safe.
class ANYACCEL_API CPUAdam {
 public:
  /// Load the op, building it first if necessary. Throws `build_failed` or `unavailable` if that
  /// fails.
  explicit CPUAdam(const CPUAdamOptions& options = {});
  ~CPUAdam();
  CPUAdam(const CPUAdam&) = delete;
  CPUAdam& operator=(const CPUAdam&) = delete;

  /// Perform one step and increment steps(). `exp_avg` and `exp_avg_sq`: first and second moments.
  void step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
            at::TensorList exp_avg_sq);
  /// Undo the last step, as far as rounding allows. Takes the same arguments as that step. A
  /// parameter whose restored value is not finite becomes 0. Throws `invalid_state` before the
  /// first step.
  void rollback(at::TensorList params, at::TensorList grads, at::TensorList exp_avg,
                at::TensorList exp_avg_sq);

  /// Options. They may change between steps, except `adamw_mode`, which is fixed by the
  /// constructor.
  CPUAdamOptions& options() noexcept { return options_; }
  /// Number of steps taken.
  std::int64_t steps() const noexcept { return steps_; }
  /// Set the number of steps, to resume training.
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  CPUAdamOptions options_;
  std::int64_t steps_ = 0;
  std::int64_t id_;
};

}  // namespace anyaccel::ops
