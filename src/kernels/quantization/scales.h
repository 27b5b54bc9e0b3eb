// Quantization parameters of a group, for host and CUDA kernels.
#pragma once

#include <cmath>

#include "kernels/quantization/range.h"

namespace anyaccel::ops {

/// code = round((x - offset) * scale), with ties to even, clamped to [-2^(bits-1), 2^(bits-1) - 1].
/// code * step + offset approximates x.
struct GroupScale {
  float scale;
  float offset;  ///< 0 if symmetric
  float step;    ///< 1 / scale
  bool flat;     ///< all codes are 0
};

/// Computes the scale in the same way as DeepSpeed: the 2^bits codes cover twice the largest
/// magnitude, or if asymmetric the range from the minimum to the maximum. The scale is 1 if all
/// values are equal (symmetric: if all are 0). The formula halves the values first, which yields
/// the same bits and cannot overflow. If the group contains NaN or infinity, the step or the offset
/// is set so that the whole group is dequantized as NaN.
ANYACCEL_ON_BOTH GroupScale group_scale(GroupRange range, int bits, bool asymmetric, bool empty) {
  if (empty) return {1.0F, 0.0F, 1.0F, true};
  const float levels = bits == 8 ? 128.0F : 8.0F;
  // For magnitudes, in_order() is the identity.
  const float high = float_of(in_order(range.high));
  const float low = asymmetric ? float_of(in_order(range.low)) : -high;
  GroupScale out;
  out.offset = asymmetric ? low / 2 + high / 2 : 0.0F;
  out.scale = low == high ? 1.0F : levels / (high / 2 - low / 2);
  out.step = 1.0F / out.scale;
  const bool is_number = (bits_of(out.scale) & sign_mask) < infinity_bits && out.scale > 0;
  out.flat = low == high || !is_number || (bits_of(out.offset) & sign_mask) >= infinity_bits;
  return out;
}

ANYACCEL_ON_BOTH int code_of(const GroupScale& scale, int bits, float value) {
  if (scale.flat) return 0;
  const float limit = bits == 8 ? 128.0F : 8.0F;
  const float code = (value - scale.offset) * scale.scale;
  return static_cast<int>(rintf(code < -limit ? -limit : code > limit - 1 ? limit - 1 : code));
}

ANYACCEL_ON_BOTH float value_of(int code, float step, float offset) {
  return fmaf(static_cast<float>(code), step, offset);
}

/// Order of groups in the output. If swizzled, groups that are [partition][slice][contiguous] in
/// the input become [slice][device][node][contiguous] in the output, where partition = node *
/// devices + device. The groups that go to one device of each node are then adjacent, so that the
/// first of two all-to-alls can send them as one block.
struct GroupOrder {
  std::int64_t contiguous = 1, slices = 1, nodes = 1, devices = 1;
  bool swizzled = false;
};
ANYACCEL_ON_BOTH std::int64_t place_of(const GroupOrder& order, std::int64_t group) {
  if (!order.swizzled) return group;
  const std::int64_t within = group % order.contiguous;
  const std::int64_t slice = group / order.contiguous % order.slices;
  const std::int64_t partition = group / order.contiguous / order.slices;
  const std::int64_t node = partition / order.devices, device = partition % order.devices;
  return ((slice * order.devices + device) * order.nodes + node) * order.contiguous + within;
}

}  // namespace anyaccel::ops
