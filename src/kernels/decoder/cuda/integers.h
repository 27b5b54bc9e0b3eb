// Quantization and dequantization of matrices for CUDA thread blocks, with the same codes and
// scales as quantize_row() on the CPU. The code is also compiled for the host, where the tests run
// it.
#pragma once

#include <cmath>

#include "kernels/cuda/lanes.h"
#include "kernels/decoder/cuda/elements.h"
#include "kernels/decoder/cuda/launches.h"

namespace anyaccel::ops {

constexpr int quantize_lanes = 32;  // one warp per group; group sizes are multiples of this

ANYACCEL_ON_BOTH float inverse_scale(float scale) { return scale == 0 ? 0 : 1 / scale; }

/// Clamps a value to [low, high]. NaN becomes `low`.
ANYACCEL_ON_BOTH float between_levels(float value, float low, float high) {
  const float above = value > low ? value : low;
  return above < high ? above : high;
}

/// Returns the 4-bit code of a value, from 0 to 15.
ANYACCEL_ON_BOTH float nearest_level4(float value, float factor) {
  return between_levels(rintf(value * factor) + 8, 0, 15);
}

/// Minimum that ignores a NaN in `b`.
struct Least {
  ANYACCEL_ON_BOTH float operator()(float a, float b) const { return b < a ? b : a; }
};
struct Most {
  ANYACCEL_ON_BOTH float operator()(float a, float b) const { return b > a ? b : a; }
};

/// Quantizes one group. `shared` has room for quantize_lanes floats.
template <typename Types, typename Each>
class QuantizeGroup {
 public:
  ANYACCEL_ON_BOTH QuantizeGroup(const QuantizeMatrix& launch, std::int64_t at_group,
                                 const Each& phase, float* memory)
      : c(launch),
        each(phase),
        group(at_group),
        shared(memory),
        from{const_cast<void*>(c.from), c.type} {}

  ANYACCEL_ON_BOTH void run() const {
    PerLane<float, quantize_lanes> low, high;
    each([&](int lane) {
      low[lane] = high[lane] = value(lane);
      for (std::int64_t i = lane + quantize_lanes; i < c.group; i += quantize_lanes) {
        low[lane] = Least()(low[lane], value(i));
        high[lane] = Most()(high[lane], value(i));
      }
    });
    const float least = in_order(low, Least()), most = in_order(high, Most());
    const float scale =
        c.bits == 8 ? (-least > most ? -least : most) / 127.0F : scale4(least, most);
    const float factor = inverse_scale(scale);
    each([&](int lane) {
      if (lane == 0) c.scales[group] = scale;
      if (c.bits == 8)
        for (std::int64_t i = lane; i < c.group; i += quantize_lanes)
          static_cast<std::int8_t*>(c.weight)[group * c.group + i] = static_cast<std::int8_t>(
              static_cast<std::int32_t>(between_levels(rintf(value(i) * factor), -127, 127)));
      else
        pack4(lane, factor);
    });
  }

 private:
  ANYACCEL_ON_BOTH float value(std::int64_t i) const {
    return value_at<Types>(from, group * c.group + i);
  }

  /// Combines the values in lane order, as the CPU implementation does.
  template <typename Join>
  ANYACCEL_ON_BOTH float in_order(const PerLane<float, quantize_lanes>& values,
                                  const Join& join) const {
    each([&](int lane) { shared[lane] = values[lane]; });
    float all = shared[0];
    for (int lane = 1; lane < quantize_lanes; ++lane) all = join(all, shared[lane]);
    each([](int) {});  // barrier before `shared` is overwritten
    return all;
  }

  ANYACCEL_ON_BOTH float error_of(float scale) const {
    const float factor = inverse_scale(scale);
    PerLane<float, quantize_lanes> error;
    each([&](int lane) {
      error[lane] = 0;
      for (std::int64_t i = lane; i < c.group; i += quantize_lanes) {
        const float off = (nearest_level4(value(i), factor) - 8) * scale - value(i);
        error[lane] += off * off;
      }
    });
    return in_order(error, Sum());
  }

  ANYACCEL_ON_BOTH float scale4(float least, float most) const {
    const float farthest = -least >= most ? least : most;
    float best = farthest / -8.0F, error = error_of(best);
    for (int i = 1; i <= 4; ++i) {
      const double share = i == 1 ? 0.96 : i == 2 ? 0.92 : i == 3 ? 0.88 : 0.84;
      const float scale = farthest * static_cast<float>(share / -8.0), other = error_of(scale);
      if (!(other < error)) continue;
      best = scale;
      error = other;
    }
    return best;
  }

  /// Writes the codes as 16-bit words in the int4 format of `Matrix`.
  ANYACCEL_ON_BOTH void pack4(int lane, float factor) const {
    const std::int64_t block = c.group % 64 ? 32 : 64, words = block / 4;
    auto* const to = static_cast<std::uint16_t*>(c.weight) + group * c.group / 4;
    for (std::int64_t i = lane; i < c.group / 4; i += quantize_lanes) {
      std::uint32_t word = 0;
      for (int plane = 0; plane < 4; ++plane) {
        const float level =
            nearest_level4(value(i / words * block + plane * words + i % words), factor);
        word |= static_cast<std::uint32_t>(static_cast<std::int32_t>(level)) << (4 * plane);
      }
      to[i] = static_cast<std::uint16_t>(word);
    }
  }

  const QuantizeMatrix& c;
  const Each& each;
  std::int64_t group;
  float* shared;
  Values from;
};

/// Writes element i of the result.
template <typename Types>
ANYACCEL_ON_BOTH void widen_element(const WidenMatrix& c, std::int64_t i) {
  const Matrix& m = c.matrix;
  const std::int64_t row = c.begin + i / m.inputs, input = i % m.inputs,
                     at = row * m.inputs + input;
  const std::int64_t group = at / m.group;  // groups do not cross row boundaries
  std::int32_t q;
  if (m.format == Format::int8) {
    q = static_cast<std::int32_t>(static_cast<const std::int8_t*>(m.weight)[at]);
  } else {
    const std::int64_t block = m.group % 64 ? 32 : 64, words = block / 4, inside = at % block;
    const std::int64_t plane = inside / words;
    const std::uint8_t byte = static_cast<const std::uint8_t*>(
        m.weight)[at / block * (block / 2) + 2 * (inside % words) + plane / 2];
    q = (byte >> (4 * (plane % 2)) & 15) - (m.zeros ? m.zeros[group] : 8);
  }
  set_value<Types>({c.to, c.type}, i, static_cast<float>(q) * m.scales[group]);
}

}  // namespace anyaccel::ops
