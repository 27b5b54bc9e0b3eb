// Building blocks for CUDA kernels: per-thread values that live across phases, and reductions over
// a warp or a block. They are also compiled for the host, where the tests run them. The host
// version is plain C++ and independent of torch.
//
// The code of a block is written as a function with a parameter `each`. each(function) runs one
// phase: it calls function(lane) for all threads of the block, followed by a barrier. On the
// device, `each` is BlockThreads (kernels.h); in a test, it is a loop over the lanes in any order.
// Outside of phases, all threads of a block execute the same code.
#pragma once

#include "kernels/common/host_device.h"

namespace anyaccel::ops {

constexpr int warp_lanes = 32;

/// One value for each thread of a block with `lanes` threads. On a device, it holds the calling
/// thread's value in registers; on the host, it holds the values of all threads. Values are
/// initially undefined.
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

/// Several values of one thread, which are reduced together.
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

/// Reduces the values of each warp with a commutative binary function; all threads get the result.
/// Both the device and the host combine lanes 16 apart first, then 8, 4, 2 and 1, so the results
/// are bitwise identical. All threads of the block must call it, and `lanes` must be a multiple of
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

/// Reduces the values of a block: first each warp, then the warps in order. `shared` must have room
/// for lanes / warp_lanes values; the caller may reuse it as soon as the function returns.
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
