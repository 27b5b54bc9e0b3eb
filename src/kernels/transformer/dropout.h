// Random numbers for dropout, on host and device. Each row has a 64-bit key, derived from the
// dropout key. For each element, two rounds of a 32-bit mixing function are applied. A random
// number depends only on the dropout key, the row and the column, so host and device drop the same
// elements.
#pragma once

#include <cstdint>

#include "kernels/common/host_device.h"
#include "kernels/transformer/rows.h"

namespace anyaccel::ops::draws {

ANYACCEL_ON_BOTH std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

ANYACCEL_ON_BOTH std::uint64_t row_key(const Dropout& dropout, std::int64_t row) {
  return mixed(mixed(dropout.key + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(row) + 1)) +
               dropout.key);
}

ANYACCEL_ON_BOTH std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Returns the random number of a column in the row whose key is high * 2^32 + low.
ANYACCEL_ON_BOTH std::uint32_t drawn(std::uint32_t low, std::uint32_t high, std::uint32_t column) {
  return mixed(mixed(column + low) ^ high);
}

}  // namespace anyaccel::ops::draws
