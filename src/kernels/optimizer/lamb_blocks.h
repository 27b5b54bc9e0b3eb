// One LAMB step for CUDA thread blocks, bitwise equal to lamb.h on the CPU. The code is also
// compiled for the host, where the tests run it. It uses plain pointers and is independent of torch
// and CUDA.
#pragma once

#include <cmath>

#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/multi_tensor.h"

namespace anyaccel::ops {

/// Parameters that determine the rate. `step_size` is the learning rate including bias correction.
struct LambBounds {
  double step_size;
  double max_coeff;
  double min_coeff;
};

struct LambRate {
  float coefficient;
  float rate;  ///< factor for the update: p -= rate * update
};

/// Computes the rate from DeepSpeed's coefficient: the ratio of the norms, clamped to the bounds,
/// or 1 if a norm is 0.
ANYACCEL_ON_BOTH LambRate lamb_rate(const LambNorms& norms, const LambBounds& bounds) {
  const double weight = sqrt(norms.params);
  const double update = sqrt(norms.update);
  float coefficient = 1;
  if (weight != 0 && update != 0) {
    const double ratio = weight / update;
    coefficient = static_cast<float>(ratio > bounds.max_coeff   ? bounds.max_coeff
                                     : ratio < bounds.min_coeff ? bounds.min_coeff
                                                                : ratio);
  }
  return {coefficient, static_cast<float>(bounds.step_size * static_cast<double>(coefficient))};
}

/// Runs the phases of a block on the host. `each(function)` runs one phase: it calls
/// function(thread) for all threads [0, lamb_lanes) before it returns.
struct HostThreads {
  template <typename Function>
  void operator()(const Function& function) const {
    for (int thread = 0; thread < lamb_lanes; ++thread) function(thread);
  }
};

/// Sums all lanes into the first one.
template <typename Each>
ANYACCEL_ON_BOTH void sum_lanes(LambNorms* lanes, const Each& each) {
  for (int half = lamb_lanes / 2; half > 0; half /= 2)
    each([&](int lane) {
      if (lane >= half) return;
      lanes[lane].params += lanes[lane + half].params;
      lanes[lane].update += lanes[lane + half].update;
    });
}

/// Sums the results of all blocks into the first lane.
template <typename Each>
ANYACCEL_ON_BOTH void lamb_total(const LambNorms* parts, std::int64_t count, LambNorms* lanes,
                                 const Each& each) {
  each([&](int lane) {
    double params = 0;
    double update = 0;
    for (std::int64_t i = lane; i < count; i += lamb_lanes) {
      params += parts[i].params;
      update += parts[i].update;
    }
    lanes[lane].params = params;
    lanes[lane].update = update;
  });
  sum_lanes(lanes, each);
}

ANYACCEL_ON_BOTH float lamb_direction(const LambConstants& c, float p, float m, float v) {
  const float divisor = c.eps_inside ? sqrtf(v + c.eps) : sqrtf(v) + c.eps;
  return fmaf(c.decay, p, m / divisor);
}

/// Like lamb_moments(), for block `block` of a tensor with `size` elements. The sums are in the
/// first lane.
template <typename P, typename G, typename S, typename Each>
ANYACCEL_ON_BOTH void lamb_moments_block(const LambConstants& c, const LambArrays& arrays,
                                         std::int64_t size, std::int64_t block, LambNorms* lanes,
                                         const Each& each) {
  const std::int64_t begin = block * lamb_block;
  const std::int64_t end = begin + lamb_block < size ? begin + lamb_block : size;
  each([&](int lane) {
    double params = 0;
    double update = 0;
    for (std::int64_t i = begin + lane; i < end; i += lamb_lanes) {
      S* const exp_avg = static_cast<S*>(arrays.exp_avg) + i;
      S* const exp_avg_sq = static_cast<S*>(arrays.exp_avg_sq) + i;
      const float p = load_float(static_cast<const P*>(arrays.params) + i);
      const float g = load_float(static_cast<const G*>(arrays.grads) + i) / c.grad_scale;
      store_float(exp_avg, fmaf(c.one_minus_beta1, g, c.beta1 * load_float(exp_avg)));
      store_float(exp_avg_sq, fmaf(c.one_minus_beta2, g * g, c.beta2 * load_float(exp_avg_sq)));
      // Reload the states, because lamb_apply_block() also uses their rounded values.
      const float u = lamb_direction(c, p, load_float(exp_avg), load_float(exp_avg_sq));
      params += static_cast<double>(p * p);
      update += static_cast<double>(u * u);
    }
    lanes[lane].params = params;
    lanes[lane].update = update;
  });
  sum_lanes(lanes, each);
}

/// Like lamb_apply(), for the same elements. `copy` has elements of type C, or is null. It replaces
/// the copy in `arrays`, whose type is known only at run time.
template <typename P, typename S, typename C, typename Each>
ANYACCEL_ON_BOTH void lamb_apply_block(const LambConstants& c, float rate, const LambArrays& arrays,
                                       C* copy, std::int64_t size, std::int64_t block,
                                       const Each& each) {
  const std::int64_t begin = block * lamb_block;
  const std::int64_t end = begin + lamb_block < size ? begin + lamb_block : size;
  each([&](int lane) {
    for (std::int64_t i = begin + lane; i < end; i += lamb_lanes) {
      P* const place = static_cast<P*>(arrays.params) + i;
      const float m = load_float(static_cast<const S*>(arrays.exp_avg) + i);
      const float v = load_float(static_cast<const S*>(arrays.exp_avg_sq) + i);
      float p = load_float(place);
      p = fmaf(-rate, lamb_direction(c, p, m, v), p);
      store_float(place, p);
      if (copy) store_float(copy + i, p);
    }
  });
}

}  // namespace anyaccel::ops
