// Building blocks of CUDA kernels that are also compiled for the host, where the tests run them:
// values that threads keep from phase to phase, and reductions over a warp or a block. Plain C++ on
// the host, no torch.
//
// The work of a block is a function with a parameter `each`. each(function) is a phase: it calls
// function(lane) for all threads of the block, followed by a barrier. On the device `each` is
// BlockThreads (kernels.h); in a test it is a loop in any order. Outside of phases, all threads of
// a block execute the same code.
#pragma once

#include "kernels/common/host_device.h"

namespace anyaccel::ops {

constexpr int warp_lanes = 32;

/// A value per thread of a block with `lanes` threads. On a device this is the thread's own value,
/// in registers; on the host, all values. Values are initially undefined.
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

/// Several values of one thread that are reduced together.
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

/// Maximum that propagates NaN.
struct Greatest {
  ANYACCEL_ON_BOTH float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/// Reduces the values of each warp with a commutative function of two values; all threads get the
/// result. Lanes 16 apart are joined first, then 8, 4, 2, 1, on the device and the host, so the
/// results are bitwise equal. All threads of the block must take part, and `lanes` is a multiple of
/// the warp size.
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

/// Reduces the values of a block: first each warp, then the warps in order. `shared` has room for
/// lanes / warp_lanes values, and may be reused immediately.
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
