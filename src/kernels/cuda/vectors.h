// 16-byte loads and stores, the widest that all CUDA devices support. The functions are also
// compiled for the host.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/common/host_device.h"

namespace anyaccel::ops {

/// A 16-byte vector of elements.
template <typename T>
struct alignas(16) Sixteen {
  static constexpr int count = 16 / static_cast<int>(sizeof(T));
  T at[count];
};

inline bool is_aligned16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Expected reuse of the data that a load reads, which selects the load instruction:
/// - once: read-only during the kernel and not read again soon, such as weights; need not stay
///   cached
/// - again: read-only during the kernel and read again
/// - written: written by the kernel itself, such as shared memory
enum class Reads { once, again, written };

/// Vector accesses to misaligned addresses trap on a device. The host version, which only tests
/// run, traps too.
ANYACCEL_ON_BOTH void expect_aligned([[maybe_unused]] const void* pointer,
                                     [[maybe_unused]] unsigned size) {
#if !defined(__CUDA_ARCH__)
  if (reinterpret_cast<std::uintptr_t>(pointer) % size) __builtin_trap();
#endif
}

/// `from` must be aligned to 16 bytes.
template <Reads reads = Reads::again, typename T>
ANYACCEL_ON_BOTH Sixteen<T> load_sixteen(const T* from) {
  expect_aligned(from, 16);
  Sixteen<T> out;
#if defined(__CUDA_ARCH__)
  const auto* const at = reinterpret_cast<const uint4*>(from);
  const uint4 words = reads == Reads::once ? __ldcs(at) : reads == Reads::again ? __ldg(at) : *at;
  memcpy(&out, &words, sizeof out);
#else
  std::memcpy(&out, from, sizeof out);
#endif
  return out;
}

/// `to` must be aligned to 16 bytes.
template <typename T>
ANYACCEL_ON_BOTH void store_sixteen(const Sixteen<T>& from, T* to) {
  expect_aligned(to, 16);
#if defined(__CUDA_ARCH__)
  uint4 words;
  memcpy(&words, &from, sizeof words);
  *reinterpret_cast<uint4*>(to) = words;
#else
  std::memcpy(to, &from, sizeof from);
#endif
}

/// Converts elements of `from` to floats in to[count], with zeros after the first `there` elements.
/// If `aligned` is set, `from` is 16-byte aligned and the size of `count` elements is a multiple of
/// 16 bytes.
template <int count, Reads reads = Reads::again, typename T>
ANYACCEL_ON_BOTH void load_floats(const T* from, std::int64_t there, bool aligned,
                                  float (&to)[count]) {
  constexpr int step = Sixteen<T>::count;
  static_assert(count % step == 0);
  if (aligned && there >= count) {
    ANYACCEL_UNROLL
    for (int i = 0; i < count; i += step) {
      const Sixteen<T> some = load_sixteen<reads>(from + i);
      ANYACCEL_UNROLL
      for (int k = 0; k < step; ++k) to[i + k] = static_cast<float>(some.at[k]);
    }
    return;
  }
  ANYACCEL_UNROLL
  for (int i = 0; i < count; ++i) to[i] = i < there ? static_cast<float>(from[i]) : 0.0F;
}

}  // namespace anyaccel::ops
