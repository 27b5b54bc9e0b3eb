// Mixed precision: autocast and loss scaling.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <vector>

#include "anyaccel/export.h"

namespace at {
class Tensor;
}

namespace anyaccel {

class Accelerator;

/// Runs this thread's ops within a scope in lower precision where that is numerically safe, like
/// torch.autocast. Leaving the outermost scope clears the cache of cast weights. Create it with
/// `Accelerator::autocast()`, which checks the dtype.
///
///     {
///       const auto autocast = get_accelerator().autocast(c10::kBFloat16);
///       loss = model->forward(batch);
///     }
///     loss.backward();
class ANYACCEL_API Autocast {
 public:
  Autocast(c10::DeviceType type, c10::ScalarType dtype, bool enabled, bool cache_enabled);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType type_;
  bool previous_enabled_;
  bool previous_cache_;
  c10::ScalarType previous_dtype_;
};

/// Loss scaler, like torch.amp.GradScaler: scales the loss so that float16 gradients do not
/// underflow, and detects overflows. After an overflow, the step must be skipped. Not thread-safe.
///
///     scaler.scale(loss).backward();
///     const bool finite = scaler.unscale_(gradients);
///     if (finite) optimizer.step();
///     scaler.update(finite);
class ANYACCEL_API GradScaler {
 public:
  /// Options, with the defaults of torch.amp.GradScaler. The constructor throws `invalid_argument`
  /// for an out-of-range value.
  struct Options {
    /// Initial scale. Must be greater than 0.
    double init_scale = 65536.0;
    /// The scale is multiplied by this factor after `growth_interval` consecutive steps without
    /// overflow. Must be greater than 1.
    double growth_factor = 2.0;
    /// The scale is multiplied by this factor after an overflow. Must be between 0 and 1,
    /// exclusive.
    double backoff_factor = 0.5;
    /// Number of consecutive steps without overflow before the scale grows. At least 1.
    int growth_interval = 2000;
    /// False disables scaling: the scale stays 1 and all methods are no-ops.
    bool enabled = true;
  };
  GradScaler() : GradScaler(Options{}) {}
  /// Create a scaler. Throws `invalid_argument` for out-of-range options.
  explicit GradScaler(const Options& options);

  /// Return `loss * scale`, or `loss` itself if scaling is disabled.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  /// Divide the gradients by the scale, in place. Returns false if any gradient contains an
  /// infinity or NaN; the step must then be skipped. Waits for the device.
  [[nodiscard]] bool unscale_(const std::vector<at::Tensor>& gradients);
  /// Adapt the scale. Call it once per step with the result of unscale_(): the scale is multiplied
  /// by `backoff_factor` after an overflow and by `growth_factor` after `growth_interval`
  /// consecutive steps without overflow.
  void update(bool finite);
  /// Current scale; 1 if scaling is disabled.
  double get_scale() const noexcept { return scale_; }
  /// Number of steps without overflow since the scale last changed. Save it in checkpoints,
  /// together with get_scale().
  int growth_tracker() const noexcept { return tracker_; }
  /// Restore the values of get_scale() and growth_tracker() from a checkpoint.
  void load_state(double scale, int growth_tracker) noexcept;

 private:
  Options options_;
  double scale_;
  int tracker_ = 0;
};

/// Autocast and loss scaling under the names used in older DeepSpeed releases. Returned by
/// `Accelerator::amp()`.
class Amp {
 public:
  explicit Amp(c10::DeviceType type) : type_(type) {}
  Autocast autocast(c10::ScalarType dtype, bool enabled = true, bool cache_enabled = true) const {
    return Autocast(type_, dtype, enabled, cache_enabled);
  }
  GradScaler grad_scaler(const GradScaler::Options& options) const { return GradScaler(options); }
  GradScaler grad_scaler() const { return GradScaler(); }

 private:
  c10::DeviceType type_;
};

}  // namespace anyaccel
