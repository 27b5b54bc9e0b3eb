// Ranges (minimum and maximum) of groups of numbers, for host and CUDA kernels. They are computed
// with integers that have the same order as the floats. The result is therefore bitwise independent
// of the order of the elements, and NaNs are detected.
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

/// Maps the bits of a float to an integer with the same order. -0 is below 0, and NaNs are at both
/// ends. The function is its own inverse.
ANYACCEL_ON_BOTH std::int32_t in_order(std::int32_t bits) {
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

constexpr std::int32_t sign_mask = 0x7fffffff;
constexpr std::int32_t infinity_bits = 0x7f800000;

/// Minimum and maximum of in_order() over a group's elements. If only magnitudes matter, `high` is
/// the largest magnitude and `low` is unused.
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
