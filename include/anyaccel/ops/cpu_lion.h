// Lion for parameters in host memory. A step makes one pass over memory, with the widest available
// vector instructions and torch's threads. Link `anyaccel::ops`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// Options, with the same defaults as DeepSpeedCPULion.
struct CPULionOptions {
  double lr = 1e-3;  ///< any finite number
  /// Weight of the momentum in the update direction, in [0, 1).
  double beta1 = 0.9;
  /// Decay of the momentum, in [0, 1).
  double beta2 = 0.999;
  double weight_decay = 0;  ///< decoupled weight decay; 0 or more
};

/// Lion (Chen et al., arXiv:2302.06675) for parameters in host memory. Holds options and the number
/// of steps; the caller owns the tensors and passes the same ones to each step.
///
/// Each list has one entry per parameter, with the parameter's shape. All tensors are dense and in
/// host memory, regardless of the accelerator. Parameters are float32, bfloat16 or float16.
/// Gradients and state are float32 or have the parameters' dtype. The caller initializes the state
/// to zeros.
///
/// Accuracy: arithmetic is in float32. Compared with exact arithmetic on the same input, with the
/// float32 sign of the direction, the error of a parameter is at most 2^-22 (|p| + lr) plus the
/// rounding to its dtype. The error of the state is at most 2^-22 of the sum of the magnitudes of
/// its two terms. sign(0) is 0, and the sign of NaN is NaN. Results are bit-identical for any
/// number of threads, alignment and instruction set.
///
/// Throws `invalid_argument` for invalid options or tensors; the tensors are then unchanged. Not
/// thread-safe.
class ANYACCEL_API CPULion {
 public:
  /// Load the op, building it first if necessary. Throws `build_failed` or `unavailable` if that
  /// fails.
  explicit CPULion(const CPULionOptions& options = {});
  ~CPULion();
  CPULion(const CPULion&) = delete;
  CPULion& operator=(const CPULion&) = delete;

  /// Perform one step and increment steps(). `exp_avg`: the momentum.
  void step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg);

  /// Options. They may change between steps.
  CPULionOptions& options() noexcept { return options_; }
  /// Number of steps taken.
  std::int64_t steps() const noexcept { return steps_; }
  /// Set the number of steps, to resume training.
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  CPULionOptions options_;
  std::int64_t steps_ = 0;
  std::int64_t id_;
};

}  // namespace anyaccel::ops
