// Ranges of groups of numbers, as the host's kernels and CUDA's find them: in whole numbers whose
// order is that of the floats, so that the result has the same bits in any order of elements, and a
// NaN in the group is seen.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/optimizer/multi_tensor.h"

namespace anyaccel::ops {

ANYACCEL_ON_BOTH std::int32_t bits_of(float value) {
  std::int32_t out;
  memcpy(&out, &value, sizeof out);
  return out;
}
ANYACCEL_ON_BOTH float float_of(std::int32_t bits) {
  float out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

/// A float's bits as a whole number of the same order, -0 below 0 and NaNs at both ends; and back:
/// it is its own inverse.
ANYACCEL_ON_BOTH std::int32_t in_order(std::int32_t bits) {
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

constexpr std::int32_t sign_mask = 0x7fffffff;
constexpr std::int32_t infinity_bits = 0x7f800000;

/// Least and greatest of a group's numbers in_order(); of their magnitudes where only those count,
/// and `low` is not used then.
struct GroupRange {
  std::int32_t low, high;
};

ANYACCEL_ON_BOTH GroupRange empty_range(bool magnitudes) {
  return {0x7fffffff, magnitudes ? 0 : -0x7fffffff - 1};
}
ANYACCEL_ON_BOTH GroupRange joined(GroupRange a, GroupRange b) {
  return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}
ANYACCEL_ON_BOTH GroupRange with_value(GroupRange range, float value, bool magnitudes) {
  const std::int32_t key = magnitudes ? bits_of(value) & sign_mask : in_order(bits_of(value));
  return joined(range, {key, key});
}

}  // namespace anyaccel::ops
