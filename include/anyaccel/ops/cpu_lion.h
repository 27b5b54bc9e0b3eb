// Lion (arXiv 2302.06675) for parameters in host memory: one pass over memory, with the processor's
// widest vectors and torch's threads. Link `anyaccel::ops`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

namespace anyaccel::ops {

/// As DeepSpeedCPULion's. Decay is 0 or more.
struct CPULionOptions {
  double lr = 1e-3;  ///< any finite number
  double beta1 = 0.9;
  double beta2 = 0.999;     ///< both in [0, 1)
  double weight_decay = 0;  ///< decoupled
};

/// One optimizer: options and the number of steps taken. Tensors stay the caller's, who passes the
/// same ones each time.
///
/// Of each tensor the lists have one entry, of one shape, dense and in host memory, whatever the
/// accelerator: parameters of float32, bfloat16 or float16; gradients of float32 or the parameters'
/// dtype; the state, which begins as zeros, of float32 or the parameters' dtype. Arithmetic is in
/// float32. Compared with exact arithmetic on the same input a parameter is off by at most 2^-22
/// (|p| + lr), plus the rounding to its dtype, where the sign of the direction is that of float32;
/// the state by 2^-22 of the sum of the sizes of its two terms. sign(0) is 0 and of no number no
/// number. Results have the same bits for any number of threads, alignment and instruction set.
///
/// Errors are `invalid_argument`; then nothing was changed. An object is for one thread at a time.
class ANYACCEL_API CPULion {
 public:
  /// Loads the op first if need be, which may compile it: `build_failed` or `unavailable` when that
  /// cannot be.
  explicit CPULion(const CPULionOptions& options = {});
  ~CPULion();
  CPULion(const CPULion&) = delete;
  CPULion& operator=(const CPULion&) = delete;

  /// One step. Counts one more step unless it throws.
  void step(at::TensorList params, at::TensorList grads, at::TensorList exp_avg);

  /// May be changed between steps.
  CPULionOptions& options() noexcept { return options_; }
  /// Steps taken; to be set when a training is resumed.
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  CPULionOptions options_;
  std::int64_t steps_ = 0;
  std::int64_t id_;
};

}  // namespace anyaccel::ops
