#include "anyaccel/amp.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorOptions.h>

#include <cmath>
#include <limits>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"

namespace anyaccel {

Autocast::Autocast(c10::DeviceType type, c10::ScalarType dtype, bool enabled, bool cache_enabled)
    : type_(type),
      previous_enabled_(at::autocast::is_autocast_enabled(type)),
      previous_cache_(at::autocast::is_autocast_cache_enabled()),
      previous_dtype_(at::autocast::get_autocast_dtype(type)) {
  at::autocast::set_autocast_enabled(type_, enabled);
  at::autocast::set_autocast_dtype(type_, dtype);
  at::autocast::set_autocast_cache_enabled(cache_enabled);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, previous_enabled_);
  at::autocast::set_autocast_dtype(type_, previous_dtype_);
  at::autocast::set_autocast_cache_enabled(previous_cache_);
}

Amp Accelerator::amp() const noexcept { return Amp(device_type()); }

Autocast Accelerator::autocast(c10::ScalarType dtype, bool enabled, bool cache_enabled) const {
  if (enabled && !dtype_support(dtype).computable)
    throw Error(
        ErrorCode::unsupported, "autocast",
        {.what = "the accelerator '" + name() + "' does not support computation in this dtype",
         .got = dtype_name(dtype),
         .hint = "see dtype_table()"});
  return {device_type(), dtype, enabled, cache_enabled};
}

GradScaler::GradScaler(const Options& options)
    : options_(options), scale_(options.enabled ? options.init_scale : 1.0) {
  if (options.init_scale <= 0 || options.growth_factor <= 1 || options.backoff_factor <= 0 ||
      options.backoff_factor >= 1 || options.growth_interval < 1)
    throw Error(
        ErrorCode::invalid_argument, "GradScaler",
        {.what = "an option is out of range",
         .want =
             "init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1, growth_interval >= 1"});
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return options_.enabled ? loss * scale_ : loss;
}

namespace {

bool has_unscale_kernel(const at::Tensor& gradient) {
  static const auto op = c10::Dispatcher::singleton().findSchema(
      {"aten::_amp_foreach_non_finite_check_and_unscale_", ""});
  return op && op->hasKernelForDispatchKey(c10::computeDispatchKey(
                   gradient.scalar_type(), gradient.layout(), gradient.device()));
}

}  // namespace

bool GradScaler::unscale_(const std::vector<at::Tensor>& gradients) {
  if (!options_.enabled || gradients.empty()) return true;
  const auto on_device = gradients[0].options().dtype(c10::kFloat).requires_grad(false);
  if (has_unscale_kernel(gradients[0])) {
    // On a CPU, this fused kernel is 15 to 30 times as fast as the ops below
    // (benchmarks/torch_functions.bench.py).
    at::Tensor found_inf = at::zeros({1}, on_device);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf,
                                                   at::full({}, 1.0 / scale_, on_device));
    return found_inf.item<float>() == 0;
  }
  at::_foreach_mul_(gradients, 1.0 / scale_);
  // Use the largest magnitude of each tensor, because a sum of squares could overflow.
  const auto largest = at::_foreach_norm(gradients, std::numeric_limits<double>::infinity());
  return at::isfinite(at::stack(largest)).all().item<bool>();
}

void GradScaler::update(bool finite) {
  if (!options_.enabled) return;
  if (!finite) {
    scale_ *= options_.backoff_factor;
    tracker_ = 0;
  } else if (++tracker_ == options_.growth_interval) {
    const double grown = scale_ * options_.growth_factor;
    if (std::isfinite(grown)) scale_ = grown;
    tracker_ = 0;
  }
}

void GradScaler::load_state(double scale, int growth_tracker) noexcept {
  scale_ = scale;
  tracker_ = growth_tracker;
}

}  // namespace anyaccel
