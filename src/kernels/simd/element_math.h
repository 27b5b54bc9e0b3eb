// Per-element arithmetic for the CUDA kernels and for their tests on the host. The formulas and
// roundings are those of the CPU kernels (adam_isa.h, lion_isa.h). By default, nvcc rounds
// divisions and square roots correctly.
#pragma once

#include <cmath>

#include "kernels/common/host_device.h"
#include "kernels/optimizer/adam.h"
#include "kernels/optimizer/lion.h"

namespace anyaccel::ops {

/// A parameter, its gradient and its states.
struct AdamElement {
  float p, g, m, v;
};

ANYACCEL_ON_BOTH AdamElement adam_element(const AdamConstants& c, AdamElement e) {
  if (c.has_l2) e.g = fmaf(c.l2, e.p, e.g);
  e.m = fmaf(c.one_minus_beta1, e.g, c.beta1 * e.m);
  e.v = fmaf(c.one_minus_beta2, e.g * e.g, c.beta2 * e.v);
  const float divisor = fmaf(sqrtf(e.v), c.root, c.eps);
  const float update = c.divides ? e.m / divisor : e.m * (1.0F / divisor);
  if (c.has_shrink) e.p = fmaf(c.shrink, e.p, e.p);
  e.p = fmaf(c.step_size, update, e.p);
  return e;
}

struct LionElement {
  float p, g, m;
};

ANYACCEL_ON_BOTH LionElement lion_element(const LionConstants& c, LionElement e) {
  const float direction = fmaf(c.one_minus_beta1, e.g, c.beta1 * e.m);
  const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : direction;
  if (c.shrink != 0) e.p = fmaf(c.shrink, e.p, e.p);
  e.p = fmaf(c.minus_lr, sign, e.p);
  e.m = fmaf(c.one_minus_beta2, e.g, c.beta2 * e.m);
  return e;
}

}  // namespace anyaccel::ops
