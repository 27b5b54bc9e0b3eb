// Quantizes and dequantizes matrices with each instruction set and compares the results with a
// reference implementation of the formats.
#include "kernels/decoder/integers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "unit/kernels/arrays.h"

namespace {

using anyaccel::ops::Element;
using anyaccel::ops::Format;
using anyaccel::ops::Isa;
using anyaccel::ops::Matrix;
using op_tests::Random;

struct Shape {
  int bits;
  std::int64_t outputs, inputs, group;
  bool asymmetric;
};
constexpr Shape shapes[] = {
    {8, 3, 32, 32, false}, {8, 5, 192, 96, false}, {8, 2, 256, 128, false}, {4, 3, 32, 32, false},
    {4, 4, 96, 96, true},  {4, 5, 192, 64, true},  {4, 2, 512, 256, false}, {4, 1, 640, 128, true}};

/// Returns the quantized weight at row `output` and column `input`.
int level(const std::vector<std::uint8_t>& weight, const Shape& shape, std::int64_t output,
          std::int64_t input) {
  if (shape.bits == 8)
    return static_cast<std::int8_t>(
        weight[static_cast<std::size_t>(output * shape.inputs + input)]);
  const std::int64_t block = shape.group % 64 ? 32 : 64, words = block / 4;
  const std::int64_t nibble = input % block / words, word = input % words;
  const std::int64_t at =
      output * shape.inputs / 2 + input / block * block / 2 + 2 * word + nibble / 2;
  return (weight[static_cast<std::size_t>(at)] >> (nibble % 2 * 4)) & 15;
}

std::size_t weight_bytes(const Shape& shape) {
  return static_cast<std::size_t>(shape.outputs * shape.inputs * shape.bits / 8);
}

// Fails if a 4-bit value is read from the wrong place, a group uses the scale or zero point of its
// neighbor, or a row is written past its end.
TEST(InferenceIntegers, DequantizedValuesFollowTheFormat) {
  for (const Shape& shape : shapes) {
    Random random(static_cast<std::uint64_t>(shape.inputs));
    std::vector<std::uint8_t> weight(weight_bytes(shape)), zeros;
    for (auto& byte : weight) byte = static_cast<std::uint8_t>(random.between(0, 255.9));
    const std::int64_t groups = shape.inputs / shape.group;
    std::vector<float> scales;
    for (std::int64_t i = 0; i < shape.outputs * groups; ++i) {
      scales.push_back(static_cast<float>(random.between(-0.1, 0.1)));
      zeros.push_back(static_cast<std::uint8_t>(random.between(0, 15.9)));
    }
    const Matrix matrix{shape.bits == 8 ? Format::int8 : Format::int4,
                        shape.outputs,
                        shape.inputs,
                        shape.group,
                        weight.data(),
                        scales.data(),
                        shape.asymmetric ? zeros.data() : nullptr};
    for (const Isa isa : op_tests::sets())
      for (const Element type : {Element::f32, Element::bf16, Element::fp16}) {
        SCOPED_TRACE(std::string(anyaccel::ops::to_string(isa)) + " " + std::to_string(shape.bits) +
                     " bits, inputs " + std::to_string(shape.inputs) + " group " +
                     std::to_string(shape.group));
        const std::int64_t begin = shape.outputs > 1 ? 1 : 0, count = shape.outputs - begin;
        const auto size = static_cast<std::size_t>(anyaccel::ops::size_of(type));
        std::vector<char> to(static_cast<std::size_t>(count * shape.inputs) * size + 64, 'g');
        anyaccel::ops::widen_rows(isa, matrix, begin, shape.outputs, type, to.data());
        EXPECT_TRUE(std::all_of(to.end() - 64, to.end(), [](char c) { return c == 'g'; }));
        for (std::int64_t i = 0; i < count * shape.inputs; ++i) {
          const std::int64_t output = begin + i / shape.inputs, input = i % shape.inputs;
          const auto group = static_cast<std::size_t>(output * groups + input / shape.group);
          const int zero = shape.bits == 8 ? 0 : shape.asymmetric ? zeros[group] : 8;
          const double want =
              static_cast<float>(level(weight, shape, output, input) - zero) * scales[group];
          std::uint32_t bits = 0;
          std::memcpy(&bits, to.data() + static_cast<std::size_t>(i) * size, size);
          if (want != 0) {  // a zero may have either sign
            ASSERT_EQ(bits, op_tests::to_bits(want, type)) << i;
          }
        }
      }
  }
}

// Fails if a value is not rounded to the nearest step, or a scale is wrong. The scale is derived
// from the largest magnitude in the group, except that int4 may use a smaller scale. A group of
// zeros must not cause a division by zero.
TEST(InferenceIntegers, QuantizesToTheNearestStep) {
  for (const Shape& shape : shapes) {
    Random random(static_cast<std::uint64_t>(shape.inputs + 1));
    std::vector<float> row, scratch(static_cast<std::size_t>(shape.inputs));
    for (std::int64_t i = 0; i < shape.inputs; ++i)
      row.push_back(static_cast<float>(random.between(-1, 1)));
    if (shape.inputs > shape.group) std::fill_n(row.begin(), shape.group, 0.0F);
    for (const Isa isa : op_tests::sets()) {
      SCOPED_TRACE(std::string(anyaccel::ops::to_string(isa)) + " " + std::to_string(shape.bits) +
                   " bits, inputs " + std::to_string(shape.inputs) + " group " +
                   std::to_string(shape.group));
      const Shape one{shape.bits, 1, shape.inputs, shape.group, false};
      std::vector<std::uint8_t> weight(weight_bytes(one) + 64, 'g');
      std::vector<float> scales(static_cast<std::size_t>(shape.inputs / shape.group));
      anyaccel::ops::quantize_row(isa, shape.bits, shape.group, Element::f32, row.data(),
                                  shape.inputs, weight.data(), scales.data(), scratch.data());
      EXPECT_TRUE(
          std::all_of(weight.end() - 64, weight.end(), [](std::uint8_t c) { return c == 'g'; }));
      for (std::size_t g = 0; g < scales.size(); ++g) {
        const auto begin = static_cast<std::int64_t>(g) * shape.group;
        float low = 0, high = 0;
        for (std::int64_t i = begin; i < begin + shape.group; ++i) {
          low = std::min(low, row[static_cast<std::size_t>(i)]);
          high = std::max(high, row[static_cast<std::size_t>(i)]);
        }
        const float scale = scales[g], farthest = -low >= high ? low : high;
        if (shape.bits == 8) {
          EXPECT_FLOAT_EQ(scale, std::max(-low, high) / 127);
        } else if (farthest != 0) {
          const float share = scale / (farthest / -8);
          EXPECT_TRUE(std::abs(std::remainder(share, 0.04F)) < 1e-5 && share > 0.83 && share < 1.01)
              << share;
        }
        for (std::int64_t i = begin; i < begin + shape.group; ++i) {
          const double value = row[static_cast<std::size_t>(i)];
          const int q = level(weight, one, 0, i) - (shape.bits == 8 ? 0 : 8);
          const double nearest = scale == 0 ? 0 : std::nearbyint(value / scale);
          const double most = shape.bits == 8 ? 127 : 7, least = shape.bits == 8 ? -127 : -8;
          EXPECT_NEAR(q, std::clamp(nearest, least, most),
                      std::abs(value / (scale == 0 ? 1 : scale) - nearest) > 0.499)
              << i;
        }
      }
    }
  }
}

// Fails if the search for an int4 scale stops early or chooses a worse scale. A smaller scale must
// clip a single outlier if this reduces the total error.
TEST(InferenceIntegers, SmallerScaleIsUsedIfItReducesTheError) {
  for (const Isa isa : op_tests::sets()) {
    Random random(5);
    std::vector<float> row(64), scratch(64);
    for (auto& value : row) value = static_cast<float>(random.between(-0.1, 0.1));
    const auto error_with = [&](float scale) {
      double sum = 0;
      for (const float value : row)
        sum += std::pow(std::clamp(std::nearbyint(value / scale), -8.0F, 7.0F) * scale - value, 2);
      return sum;
    };
    const float farthest = *std::max_element(
        row.begin(), row.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
    std::vector<std::uint8_t> weight(32);
    float scale = 0;
    anyaccel::ops::quantize_row(isa, 4, 64, Element::f32, row.data(), 64, weight.data(), &scale,
                                scratch.data());
    for (const float share : {1.0F, 0.96F, 0.92F, 0.88F, 0.84F})
      EXPECT_LE(error_with(scale), error_with(farthest * share / -8) * (1 + 1e-4)) << share;
  }
}

}  // namespace
