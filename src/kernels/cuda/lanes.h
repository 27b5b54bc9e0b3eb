// What the work of a block of CUDA threads is written with, compiled for the host too, whose tests
// run it: values that threads keep from phase to phase, and what is joined over a warp or a block.
// Plain C++ on the host, no torch.
//
// A block's work is a function that is given `each`: each(function) is a phase, function(lane) for
// all of the block's threads, all done afterwards (a barrier). On the device `each` is BlockThreads
// (kernels.h), in a test a loop, in any order. What a thread of a block does outside of a phase
// every thread does alike.
#pragma once

#include "kernels/common/host_device.h"

namespace anyaccel::ops {

constexpr int warp_lanes = 32;

/// A value of each of a block's `lanes` threads: the thread's own in its registers on a device, all
/// of them on the host. Values are undefined until they are set.
template <typename T, int lanes>
struct PerLane {
#if defined(__CUDA_ARCH__)
  T own;
#else
  T all[lanes];
#endif

  ANYACCEL_ON_BOTH T& operator[]([[maybe_unused]] int lane) {
#if defined(__CUDA_ARCH__)
    return own;
#else
    return all[lane];
#endif
  }
  ANYACCEL_ON_BOTH const T& operator[](int lane) const { return const_cast<PerLane&>(*this)[lane]; }
};

/// Several values of one thread, which are joined side by side.
template <typename T, int count>
struct Several {
  T at[count];
};

struct Sum {
  template <typename T>
  ANYACCEL_ON_BOTH T operator()(T a, T b) const {
    return a + b;
  }
};

/// A number that is none stays: NaN counts as the greatest.
struct Greatest {
  ANYACCEL_ON_BOTH float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/// Joins the values of each warp's threads with a function of two that does not mind their order;
/// each has the result afterwards. Lanes 16 apart are joined first, then 8, 4, 2, 1, on both: the
/// same bits. No threads of a block may be missing, and `lanes` is whole warps.
template <typename T, int lanes, typename Join>
ANYACCEL_ON_BOTH void join_warps(PerLane<T, lanes>& value, const Join& join) {
  static_assert(lanes % warp_lanes == 0);
#if defined(__CUDA_ARCH__)
  for (int step = warp_lanes / 2; step > 0; step /= 2)
    value.own = join(value.own, __shfl_xor_sync(0xffffffffU, value.own, step));
#else
  for (int step = warp_lanes / 2; step > 0; step /= 2) {
    const PerLane<T, lanes> before = value;
    for (int lane = 0; lane < lanes; ++lane)
      value.all[lane] = join(before.all[lane], before.all[lane ^ step]);
  }
#endif
}

template <typename T, int count, int lanes, typename Join>
ANYACCEL_ON_BOTH void join_warps(PerLane<Several<T, count>, lanes>& value, const Join& join) {
  ANYACCEL_UNROLL
  for (int i = 0; i < count; ++i) {
    PerLane<T, lanes> one;
#if defined(__CUDA_ARCH__)
    one.own = value.own.at[i];
    join_warps(one, join);
    value.own.at[i] = one.own;
#else
    for (int lane = 0; lane < lanes; ++lane) one.all[lane] = value.all[lane].at[i];
    join_warps(one, join);
    for (int lane = 0; lane < lanes; ++lane) value.all[lane].at[i] = one.all[lane];
#endif
  }
}

/// The same over the block: warps first, then the warps in their order. `shared` has room for lanes
/// / warp_lanes values and may be used again at once.
template <typename T, int lanes, typename Each, typename Join>
ANYACCEL_ON_BOTH void join_block(const Each& each, PerLane<T, lanes>& value, T* shared,
                                 const Join& join) {
  join_warps(value, join);
  each([&](int lane) {
    if (lane % warp_lanes == 0) shared[lane / warp_lanes] = value[lane];
  });
  each([&](int lane) {
    T all = shared[0];
    for (int warp = 1; warp < lanes / warp_lanes; ++warp) all = join(all, shared[warp]);
    value[lane] = all;
  });
}

}  // namespace anyaccel::ops
