// Mixed precision: autocast by scope, and loss scaling for fp16.
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

/// Runs the ops of a scope in a lower precision where that is safe, on this thread. As
/// torch.autocast. Leaving the outermost scope clears the cache of cast weights.
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

/// Scales the loss so that fp16 gradients do not vanish, and skips steps that overflowed. As
/// torch.amp.GradScaler. Not thread-safe.
class ANYACCEL_API GradScaler {
 public:
  struct Options {
    double init_scale = 65536.0;
    double growth_factor = 2.0;
    double backoff_factor = 0.5;
    int growth_interval = 2000;
    bool enabled = true;
  };
  GradScaler() : GradScaler(Options{}) {}
  explicit GradScaler(const Options& options);

  /// loss * scale; unchanged when disabled.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  /// Divides gradients by the scale in place. Returns false when any is infinite or NaN: skip the
  /// step.
  [[nodiscard]] bool unscale_(const std::vector<at::Tensor>& gradients);
  /// Call once a step with what unscale_ returned: adapts the scale.
  void update(bool finite);
  double get_scale() const noexcept { return scale_; }
  /// For checkpoints.
  int growth_tracker() const noexcept { return tracker_; }
  void load_state(double scale, int growth_tracker) noexcept;

 private:
  Options options_;
  double scale_;
  int tracker_ = 0;
};

/// What `get_accelerator().amp()` returns, as older DeepSpeed releases have it.
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
