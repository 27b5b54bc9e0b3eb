// A softmax whose greatest score and sum are carried from tile to tile, for host and device.
#pragma once

#include <cmath>

#include "kernels/common/host_device.h"

namespace anyaccel::ops {

ANYACCEL_ON_BOTH float attention_exp(float x) { return expf(x); }
ANYACCEL_ON_BOTH double attention_exp(double x) { return exp(x); }

/// The score of a key that a query does not see.
template <typename Real>
constexpr Real no_score = -static_cast<Real>(HUGE_VAL);

/// What to subtract from scores whose greatest is `most`. If a query sees nothing, subtracting -inf
/// would give NaN.
template <typename Real>
ANYACCEL_ON_BOTH Real subtrahend(Real most) {
  return most == no_score<Real> ? Real{0} : most;
}

}  // namespace anyaccel::ops
