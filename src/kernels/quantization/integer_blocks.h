// Integer quantization for CUDA thread blocks, bitwise equal to integer.h on the CPU. The code is
// also compiled for the host, where the tests run it. It uses plain pointers and is independent of
// torch and CUDA.
#pragma once

#include "kernels/quantization/integer.h"

namespace anyaccel::ops {

/// Number of threads per block, and size of the shared array of ranges.
constexpr int quantizer_lanes = 256;

/// Returns the code of element i of a tensor. It is signed if `Byte` is signed.
template <typename Byte>
ANYACCEL_ON_BOTH int code_at(const Byte* from, int bits, std::int64_t i) {
  if (bits == 8) return static_cast<int>(from[i]);
  const int byte = from[i / 2];
  const int code = i % 2 ? byte & 15 : (byte >> 4) & 15;
  return static_cast<Byte>(-1) > 0 ? code : (code ^ 8) - 8;
}

/// Returns the dequantized element i of the tensor to which `params` belongs.
ANYACCEL_ON_BOTH float value_at(const std::int8_t* from, int bits, bool asymmetric,
                                const float* params, std::int64_t group, std::int64_t i) {
  const std::int64_t g = i / group;
  const float step = params[asymmetric ? 2 * g : g];
  return value_of(code_at(from, bits, i), step, asymmetric ? params[2 * g + 1] : 0.0F);
}

/// Quantizes one group, whose `count` elements are value(0), value(1), ... `each(function)` runs
/// one phase: it calls function(thread) for all threads [0, quantizer_lanes) and then synchronizes
/// them. `lanes` has room for one range per thread.
template <typename Value, typename Each>
ANYACCEL_ON_BOTH void quantize_block(const Value& value, std::int64_t count, int bits,
                                     bool asymmetric, std::int8_t* to, float* params,
                                     GroupRange* lanes, const Each& each) {
  each([&](int lane) {
    GroupRange range = empty_range(!asymmetric);
    for (std::int64_t i = lane; i < count; i += quantizer_lanes)
      range = with_value(range, value(i), !asymmetric);
    lanes[lane] = range;
  });
  for (int half = quantizer_lanes / 2; half > 0; half /= 2)
    each([&](int lane) {
      if (lane < half) lanes[lane] = joined(lanes[lane], lanes[lane + half]);
    });
  each([&](int lane) {
    const GroupScale scale = group_scale(lanes[0], bits, asymmetric, count == 0);
    if (lane == 0) {
      params[0] = scale.step;
      if (asymmetric) params[1] = scale.offset;
    }
    const std::int64_t bytes = count * bits / 8;
    for (std::int64_t byte = lane; byte < bytes; byte += quantizer_lanes) {
      if (bits == 8) {
        to[byte] = static_cast<std::int8_t>(code_of(scale, bits, value(byte)));
        continue;
      }
      const int first = code_of(scale, bits, value(2 * byte)),
                second = code_of(scale, bits, value(2 * byte + 1));
      to[byte] = static_cast<std::int8_t>((first & 15) << 4 | (second & 15));
    }
  });
}

template <typename T, typename Each>
ANYACCEL_ON_BOTH void quantize_group_block(const QuantizeJob& job, std::int64_t group,
                                           GroupRange* lanes, const Each& each) {
  const T* const from = static_cast<const T*>(job.from) + group * job.group;
  const std::int64_t place = place_of(job.order, group);
  quantize_block([&](std::int64_t i) { return load_float(from + i); }, job.group, job.bits,
                 job.asymmetric, job.to + place * job.group * job.bits / 8,
                 job.params + place * (job.asymmetric ? 2 : 1), lanes, each);
}

template <typename Each>
ANYACCEL_ON_BOTH void reduce_group_block(const ReduceJob& job, std::int64_t group,
                                         GroupRange* lanes, const Each& each) {
  const std::int64_t first = group * job.group, width = job.asymmetric ? 2 : 1;
  const auto sum = [&](std::int64_t i) {
    float out = 0;
    for (std::int64_t tensor = 0; tensor < job.tensors; ++tensor) {
      const float value = value_at(
          job.from + tensor * job.size * job.bits / 8, job.bits, job.asymmetric,
          job.from_params + tensor * (job.size / job.in_group) * width, job.in_group, first + i);
      out = tensor == 0 ? value : out + value;
    }
    return out;
  };
  quantize_block(sum, job.group, job.bits, job.asymmetric, job.to + first * job.bits / 8,
                 job.params + group * width, lanes, each);
}

/// Dequantizes one element.
template <typename T>
ANYACCEL_ON_BOTH void dequantize_element(const DequantizeJob& job, std::int64_t i) {
  store_float(static_cast<T*>(job.to) + i,
              value_at(job.from, job.bits, job.asymmetric, job.params, job.group, i));
}

/// Dequantizes one element. `Half` converts in the same way as CUDA's __half.
template <typename Half>
ANYACCEL_ON_BOTH void dequantize_half_element(const DequantizeHalfJob& job, std::int64_t i) {
  const std::int64_t group = i / job.group;
  const float scale = load_float(reinterpret_cast<const Half*>(job.scales) + group);
  const float least = load_float(reinterpret_cast<const Half*>(job.least) + group);
  Half quotient;
  store_float(&quotient, static_cast<float>(code_at(job.from, job.bits, i)) / scale);
  store_float(reinterpret_cast<Half*>(job.to) + i, load_float(&quotient) + least);
}

}  // namespace anyaccel::ops
