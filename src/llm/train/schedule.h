// Learning rate schedule.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "anyaccel/llm/fine_tuner.h"

namespace anyaccel::llm {

/// Rises linearly over the fraction `warmup` of the run, then falls linearly to 1% of `peak` at the
/// end. `progress`: completed fraction of the run, in [0, 1], by steps or by time.
inline double learning_rate(double peak, double warmup, double progress) {
  progress = std::clamp(progress, 0.0, 1.0);
  const double rise = warmup > 0 ? std::min(1.0, progress / warmup) : 1.0;
  const double fall = warmup < 1 ? std::min(1.0, (1.0 - progress) / (1.0 - warmup)) : 1.0;
  return peak * std::max(0.01, std::min(rise, fall));
}

/// The learning rate of a step (0-based) of `steps`, as in transformers' get_scheduler() with
/// `num_warmup_steps` set to the fraction `warmup` of the steps, rounded up.
inline double scheduled_rate(LearningRateSchedule schedule, double peak, double warmup,
                             std::int64_t step, std::int64_t steps) {
  const double all = static_cast<double>(steps), now = static_cast<double>(step);
  const double rising = std::ceil(all * warmup);
  if (now < rising) return peak * now / std::max(1.0, rising);
  const double progress = (now - rising) / std::max(1.0, all - rising);
  switch (schedule) {
    case LearningRateSchedule::cosine:
      return peak * std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case LearningRateSchedule::linear: return peak * std::max(0.0, 1.0 - progress);
    case LearningRateSchedule::constant: break;
  }
  return peak;
}

}  // namespace anyaccel::llm
