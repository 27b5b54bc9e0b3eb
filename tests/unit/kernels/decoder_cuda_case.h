// Random inputs for tests of the CUDA decoder pass. decoder_cuda_launches.cpp runs the pass on the
// host.
#pragma once

#include "kernels/decoder/cuda/launches.h"
#include "unit/kernels/decoder_cuda_launches.h"
#include "unit/kernels/device_elements.h"

namespace op_tests {

using anyaccel::ops::Values;

constexpr double infinity = std::numeric_limits<double>::infinity();

inline Values values_of(Array& array) { return {array.data(), array.element()}; }

inline Array drawn(Random& random, Element element, std::int64_t size, double low = -1.5,
                   double high = 1.5) {
  Array out(element, size, random.offset());
  for (std::int64_t i = 0; i < size; ++i) out.set(i, random.between(low, high));
  return out;
}

inline std::vector<float> floats(Random& random, std::int64_t size) {
  std::vector<float> out(static_cast<std::size_t>(size));
  for (float& value : out) value = static_cast<float>(random.between(-1.5, 1.5));
  return out;
}

}  // namespace op_tests
