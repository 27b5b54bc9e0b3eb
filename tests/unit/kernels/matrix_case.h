// A matrix of any format with its values, and input rows to multiply by it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/decoder/matrix.h"
#include "unit/kernels/arrays.h"

namespace op_tests {

using anyaccel::ops::Matrix;

struct MatrixCase {
  Matrix matrix;
  std::vector<std::uint8_t> weight;
  std::vector<float> scales, x;
  std::vector<std::uint8_t> zeros;
  std::vector<double> values;

  MatrixCase(anyaccel::ops::Format format, std::int64_t outputs, std::int64_t inputs,
             std::int64_t group, bool asymmetric, std::int64_t rows) {
    Random random(static_cast<std::uint64_t>(outputs * 7 + inputs));
    const std::int64_t count = outputs * inputs;
    const std::int64_t bits = format == anyaccel::ops::Format::f32    ? 32
                              : format == anyaccel::ops::Format::int8 ? 8
                              : format == anyaccel::ops::Format::int4 ? 4
                                                                      : 16;
    weight.assign(static_cast<std::size_t>(count * bits / 8), 0);
    values.resize(static_cast<std::size_t>(count));
    if (group) {
      for (std::int64_t i = 0; i < count / group; ++i) {
        scales.push_back(static_cast<float>(random.between(0.001, 0.1)));
        zeros.push_back(static_cast<std::uint8_t>(random.between(0, 15.9)));
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      auto& value = values[static_cast<std::size_t>(i)];
      if (!group) {
        const auto number =
            static_cast<float>(static_cast<int>(random.between(-99, 99))) / 64;  // exact in 16 bits
        value = number;
        std::uint32_t word;
        std::memcpy(&word, &number, 4);
        const auto half = static_cast<std::uint16_t>(
            format == anyaccel::ops::Format::bf16 ? word >> 16
            : number == 0                         ? 0
                          : (word >> 16 & 0x8000U) | ((word >> 23 & 255U) - 112U) << 10 |
                                (word >> 13 & 0x3ffU));
        std::memcpy(&weight[static_cast<std::size_t>(i * bits / 8)],
                    format == anyaccel::ops::Format::f32 ? static_cast<void*>(&word)
                                                         : const_cast<std::uint16_t*>(&half),
                    static_cast<std::size_t>(bits / 8));
        continue;
      }
      const auto at = static_cast<std::size_t>(i / group);
      if (format == anyaccel::ops::Format::int8) {
        const auto q = static_cast<std::int8_t>(random.between(-127.9, 127.9));
        weight[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(q);
        value = double{scales[at]} * q;
        continue;
      }
      const auto q = static_cast<unsigned>(random.between(0, 15.9));
      const std::int64_t block = group % 64 ? 32 : 64, words = block / 4;
      const std::int64_t row = i / inputs, k = i % inputs, nibble = k % block / words,
                         word = k % words;
      weight[static_cast<std::size_t>(row * inputs / 2 + k / block * block / 2 + 2 * word +
                                      nibble / 2)] |=
          static_cast<std::uint8_t>(q << (nibble % 2 * 4));
      value = double{scales[at]} * (static_cast<int>(q) - (asymmetric ? zeros[at] : 8));
    }
    for (std::int64_t i = 0; i < rows * inputs; ++i)
      x.push_back(static_cast<float>(random.between(-1, 1)));
    x[0] = 40;  // an outlier, as in activations; only its block may lose precision
    matrix = {format,
              outputs,
              inputs,
              group,
              weight.data(),
              group ? scales.data() : nullptr,
              asymmetric ? zeros.data() : nullptr};
  }

  double sum(std::int64_t row, std::int64_t output) const {
    double out = 0;
    for (std::int64_t i = 0; i < matrix.inputs; ++i)
      out += double{x[static_cast<std::size_t>(row * matrix.inputs + i)]} *
             values[static_cast<std::size_t>(output * matrix.inputs + i)];
    return out;
  }

  /// Error bound of a result compared with sum(): the rounding error of the sums and, for integer
  /// weights, half a quantization step of each input.
  double bound(std::int64_t row, std::int64_t output) const {
    double out = 0;
    for (std::int64_t begin = 0; begin < matrix.inputs; begin += 128) {
      double greatest = 0, weights = 0;
      for (std::int64_t i = begin; i < std::min(begin + 128, matrix.inputs); ++i) {
        greatest = std::max(greatest,
                            double{std::abs(x[static_cast<std::size_t>(row * matrix.inputs + i)])});
        weights += std::abs(values[static_cast<std::size_t>(output * matrix.inputs + i)]);
      }
      out += greatest * weights * (matrix.group ? 0.5 / 32767 + 1e-6 : 1e-6);
    }
    return out + 1e-6;
  }
};

}  // namespace op_tests
