// Expert routing: selects the experts of a row. For the host and CUDA devices.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/common/host_device.h"

namespace anyaccel::ops {

/// An expert that is selected for a row, and the weight of its result.
struct Chosen {
  std::int32_t expert, row;
  float share;
};

/// Selects the `count` largest of logits[experts] and writes them to to[count] with their softmax
/// weights. The softmax is over all experts, or with `normalize` over the selected ones, so that
/// their weights add up to 1. If logits are equal, the lower index wins.
ANYACCEL_ON_BOTH void choose_experts(const float* logits, std::int64_t experts, std::int64_t count,
                                     bool normalize, std::int32_t row, Chosen* to) {
  std::int64_t found = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    std::int64_t at = found;  // ends at `count` if the expert is not selected
    for (; at > 0 && logits[e] > to[at - 1].share; --at)
      if (at < count) to[at] = to[at - 1];
    if (at == count) continue;
    to[at] = {static_cast<std::int32_t>(e), row, logits[e]};
    if (found < count) ++found;
  }
  const float greatest = to[0].share;
  float all = 0, chosen = 0;
  for (std::int64_t e = 0; e < experts; ++e) all += expf(logits[e] - greatest);
  for (std::int64_t i = 0; i < count; ++i) chosen += to[i].share = expf(to[i].share - greatest);
  for (std::int64_t i = 0; i < count; ++i) to[i].share /= normalize ? chosen : all;
}

}  // namespace anyaccel::ops
