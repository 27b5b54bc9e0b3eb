// Learning rate schedule.
#pragma once

#include <algorithm>

namespace anyaccel::llm {

/// Rises linearly over the fraction `warmup` of the run, then falls linearly to 1% of `peak` at the
/// end. `progress`: completed fraction of the run, in [0, 1], by steps or by time.
inline double learning_rate(double peak, double warmup, double progress) {
  progress = std::clamp(progress, 0.0, 1.0);
  const double rise = warmup > 0 ? std::min(1.0, progress / warmup) : 1.0;
  const double fall = warmup < 1 ? std::min(1.0, (1.0 - progress) / (1.0 - warmup)) : 1.0;
  return peak * std::max(0.01, std::min(rise, fall));
}

}  // namespace anyaccel::llm
