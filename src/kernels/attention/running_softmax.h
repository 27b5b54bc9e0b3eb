// Helpers for an online softmax, which carries its running maximum and sum from tile to tile. For
// host and device.
#pragma once

#include <cmath>

#include "kernels/common/host_device.h"

namespace anyaccel::ops {

ANYACCEL_ON_BOTH float attention_exp(float x) { return expf(x); }
ANYACCEL_ON_BOTH double attention_exp(double x) { return exp(x); }

/// Score of a masked key.
template <typename Real>
constexpr Real no_score = -static_cast<Real>(HUGE_VAL);

/// Returns the value to subtract from scores whose maximum is `most`. This is 0 if all keys are
/// masked, because subtracting -inf would produce NaN.
template <typename Real>
ANYACCEL_ON_BOTH Real subtrahend(Real most) {
  return most == no_score<Real> ? Real{0} : most;
}

}  // namespace anyaccel::ops
