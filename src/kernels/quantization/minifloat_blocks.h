// Minifloat quantization for CUDA thread blocks, bitwise equal to minifloat.h on the CPU. The code
// is also compiled for the host, where the tests run it. It uses plain pointers and is independent
// of torch and CUDA.
#pragma once

#include "kernels/quantization/minifloat.h"

namespace anyaccel::ops {

/// Number of threads per block.
constexpr int fp_quantizer_lanes = 256;
/// Number of elements per thread and iteration. Their codes fill whole bytes in every format.
constexpr int float_unit = 8;

/// Encodes the elements [begin, end) of a group into the group's row. `begin` is a multiple of
/// float_unit, and the last code ends at a byte boundary.
template <typename T>
ANYACCEL_ON_BOTH void encode_unit(const ToFloatsJob& job, const T* from, std::int64_t begin,
                                  std::int64_t end, const FloatScale& scale, std::uint64_t key,
                                  std::uint8_t* row) {
  std::uint8_t* to = row + begin * job.format.bits / 8;
  std::uint32_t bits = 0;
  int have = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const auto random = job.stochastic ? drawn_for(key, static_cast<std::uint32_t>(i)) : 0U;
    const auto code = scale.flat ? 0
                                 : float_code_of(job.format, load_float(from + i) * scale.factor,
                                                 job.stochastic, random);
    bits |= static_cast<std::uint32_t>(code) << have;
    for (have += job.format.bits; have >= 8; have -= 8) {
      *to++ = static_cast<std::uint8_t>(bits);
      bits >>= 8;
    }
  }
}

/// Quantizes one group. `each(function)` runs one phase: it calls function(thread) for all threads
/// [0, fp_quantizer_lanes) and then synchronizes them. `lanes` has room for one number per thread.
template <typename T, typename Each>
ANYACCEL_ON_BOTH void to_floats_block(const ToFloatsJob& job, float format_greatest,
                                      std::int64_t group, std::int32_t* lanes, const Each& each) {
  const T* const from = static_cast<const T*>(job.from) + group * job.group;
  const std::int64_t bytes = job.group * job.format.bits / 8;
  std::uint8_t* const row = job.to + group * (bytes + 4);
  each([&](int lane) {
    GroupRange range = empty_range(true);
    for (std::int64_t i = lane; i < job.group; i += fp_quantizer_lanes)
      range = with_value(range, load_float(from + i), true);
    lanes[lane] = range.high;
  });
  for (int half = fp_quantizer_lanes / 2; half > 0; half /= 2)
    each([&](int lane) {
      if (lane < half && lanes[lane] < lanes[lane + half]) lanes[lane] = lanes[lane + half];
    });
  each([&](int lane) {
    const FloatScale scale = float_scale(lanes[0], format_greatest);
    const std::uint64_t key = group_key(job.seed, group);
    for (std::int64_t i = std::int64_t{float_unit} * lane; i < job.group;
         i += float_unit * fp_quantizer_lanes)
      encode_unit(job, from, i, i + float_unit < job.group ? i + float_unit : job.group, scale, key,
                  row);
    if (lane == 0) memcpy(row + bytes, &scale.step, 4);
  });
}

/// Dequantizes element i of row `source`, and stores it as element i of the group.
template <typename T>
ANYACCEL_ON_BOTH void from_floats_element(const FromFloatsJob& job, std::int64_t source,
                                          std::int64_t group, std::int64_t i) {
  const std::int64_t bytes = job.group * job.format.bits / 8, bit = i * job.format.bits;
  const std::uint8_t* const row = job.from + source * (bytes + 4);
  float step;
  memcpy(&step, row + bytes, 4);
  // The step size follows the codes, so reading the second byte is always safe.
  const int both = row[bit / 8] | row[bit / 8 + 1] << 8;
  const std::int32_t code = (both >> (bit % 8)) & ((1 << job.format.bits) - 1);
  store_float(static_cast<T*>(job.to) + group * job.group + i,
              float_of_code(job.format, code) * step);
}

}  // namespace anyaccel::ops
