// Products of few rows with matrices of every format: each instruction set against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "ops/support/inference/matrix.h"
#include "unit/ops/arrays.h"

namespace {

using anyaccel::ops::Format;
using anyaccel::ops::Isa;
using anyaccel::ops::Matrix;
using anyaccel::ops::multiply_rows;
using anyaccel::ops::prepare_rows;
using anyaccel::ops::prepared_bytes;
using op_tests::Random;

constexpr std::int64_t rows = 5;
constexpr std::size_t guard = 64;

/// A matrix with its values; what lies behind the weights is guarded against reading by a value that would show.
struct Case {
  Matrix matrix;
  std::vector<std::uint8_t> weight;
  std::vector<float> scales, x;
  std::vector<std::uint8_t> zeros;
  std::vector<double> values;

  Case(Format format, std::int64_t outputs, std::int64_t inputs, std::int64_t group, bool asymmetric) {
    Random random(static_cast<std::uint64_t>(outputs * 7 + inputs));
    const std::int64_t count = outputs * inputs;
    const std::int64_t bits = format == Format::f32 ? 32 : format == Format::int8 ? 8 : format == Format::int4 ? 4 : 16;
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
        const auto number = static_cast<float>(static_cast<int>(random.between(-99, 99))) / 64;  // exact in 16 bits
        value = number;
        std::uint32_t word;
        std::memcpy(&word, &number, 4);
        const auto half = static_cast<std::uint16_t>(
            format == Format::bf16 ? word >> 16
            : number == 0          ? 0
                          : (word >> 16 & 0x8000U) | ((word >> 23 & 255U) - 112U) << 10 | (word >> 13 & 0x3ffU));
        std::memcpy(&weight[static_cast<std::size_t>(i * bits / 8)],
                    format == Format::f32 ? static_cast<void*>(&word) : const_cast<std::uint16_t*>(&half),
                    static_cast<std::size_t>(bits / 8));
        continue;
      }
      const auto at = static_cast<std::size_t>(i / group);
      if (format == Format::int8) {
        const auto q = static_cast<std::int8_t>(random.between(-127.9, 127.9));
        weight[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(q);
        value = double{scales[at]} * q;
        continue;
      }
      const auto q = static_cast<unsigned>(random.between(0, 15.9));
      const std::int64_t block = group % 64 ? 32 : 64, words = block / 4;
      const std::int64_t row = i / inputs, k = i % inputs, nibble = k % block / words, word = k % words;
      weight[static_cast<std::size_t>(row * inputs / 2 + k / block * block / 2 + 2 * word + nibble / 2)] |=
          static_cast<std::uint8_t>(q << (nibble % 2 * 4));
      value = double{scales[at]} * (static_cast<int>(q) - (asymmetric ? zeros[at] : 8));
    }
    for (std::int64_t i = 0; i < rows * inputs; ++i) x.push_back(static_cast<float>(random.between(-1, 1)));
    x[0] = 40;  // an outlier, as activations have them: its block alone gets coarser
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

  /// How far a result may be from sum(): half a step of the row's words, or the rounding of the sums.
  double bound(std::int64_t row, std::int64_t output) const {
    double out = 0;
    for (std::int64_t begin = 0; begin < matrix.inputs; begin += 128) {
      double greatest = 0, weights = 0;
      for (std::int64_t i = begin; i < std::min(begin + 128, matrix.inputs); ++i) {
        greatest = std::max(greatest, double{std::abs(x[static_cast<std::size_t>(row * matrix.inputs + i)])});
        weights += std::abs(values[static_cast<std::size_t>(output * matrix.inputs + i)]);
      }
      out += greatest * weights * (matrix.group ? 0.5 / 32767 + 1e-6 : 1e-6);
    }
    return out + 1e-6;
  }
};

std::vector<float> multiplied(Isa isa, const Case& c, std::int64_t first, std::int64_t count, std::int64_t step) {
  const Matrix& m = c.matrix;
  const std::int64_t bytes = count * prepared_bytes(m.format, m.inputs);
  std::vector<char> memory(static_cast<std::size_t>(bytes) + 64 + guard, 'g');
  char* prepared = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  prepare_rows(isa, m, c.x.data() + first * m.inputs, count, prepared);
  for (std::size_t i = 0; i < guard; ++i) EXPECT_EQ(prepared[bytes + static_cast<std::int64_t>(i)], 'g');
  std::vector<float> to(static_cast<std::size_t>(count * m.outputs) + guard, 77.0F);
  for (std::int64_t begin = 0; begin < m.outputs; begin += step)
    multiply_rows(isa, m, prepared, count, begin, std::min(m.outputs, begin + step), to.data() + begin, m.outputs);
  for (std::size_t i = to.size() - guard; i < to.size(); ++i) EXPECT_EQ(to[i], 77.0F);
  to.resize(to.size() - guard);
  return to;
}

void check(Format format, std::int64_t outputs, std::int64_t inputs, std::int64_t group, bool asymmetric) {
  const Case c(format, outputs, inputs, group, asymmetric);
  for (const Isa isa : op_tests::sets()) {
    SCOPED_TRACE(std::string(anyaccel::ops::to_string(isa)) + " " + std::to_string(static_cast<int>(format)) + " " +
                 std::to_string(outputs) + " x " + std::to_string(inputs) + " group " + std::to_string(group));
    const auto together = multiplied(isa, c, 0, rows, outputs + 4);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t o = 0; o < outputs; ++o)
        ASSERT_NEAR(together[static_cast<std::size_t>(r * outputs + o)], c.sum(r, o), c.bound(r, o)) << r << " " << o;
      // The same bits alone, and when the outputs are done in pieces.
      const auto alone = multiplied(isa, c, r, 1, 16);
      ASSERT_EQ(std::memcmp(alone.data(), together.data() + r * outputs, static_cast<std::size_t>(outputs) * 4), 0);
    }
  }
}

// Breaks when a format is read wrongly, an input or output is lost at an edge, something is written beyond the end, or a row's bits
// depend on the rows beside it or on how the outputs are divided.
TEST(InferenceProducts, Floats) {
  for (const Format format : {Format::f32, Format::bf16, Format::fp16})
    for (const auto& [outputs, inputs] : {std::pair{1, 1}, {7, 33}, {21, 64}, {36, 576}, {5, 95}})
      check(format, outputs, inputs, 0, false);
}

TEST(InferenceProducts, Int8) {
  for (const auto& [outputs, inputs, group] :
       {std::tuple{1, 32, 32}, {7, 96, 32}, {21, 192, 64}, {36, 576, 64}, {9, 384, 128}, {5, 768, 768}, {6, 288, 96}})
    check(Format::int8, outputs, inputs, group, false);
}

TEST(InferenceProducts, Int4) {
  for (const bool asymmetric : {false, true})
    for (const auto& [outputs, inputs, group] : {std::tuple{1, 32, 32},
                                                 {7, 96, 32},
                                                 {21, 192, 64},
                                                 {36, 576, 64},
                                                 {9, 384, 128},
                                                 {5, 768, 768},
                                                 {6, 576, 192},
                                                 {5, 64, 64}})
      check(Format::int4, outputs, inputs, group, asymmetric);
}

}  // namespace
