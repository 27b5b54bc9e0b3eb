// Multiplies few rows by matrices of every format with each instruction set, and compares the
// results with sums in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/decoder/matrix.h"
#include "unit/kernels/matrix_case.h"

namespace {

using anyaccel::ops::Format;
using anyaccel::ops::Isa;
using anyaccel::ops::Matrix;
using anyaccel::ops::multiply_rows;
using anyaccel::ops::prepare_rows;
using anyaccel::ops::prepared_bytes;
using op_tests::MatrixCase;

constexpr std::int64_t rows = 5;
constexpr std::size_t guard = 64;

std::vector<float> multiplied(Isa isa, const MatrixCase& c, std::int64_t first, std::int64_t count,
                              std::int64_t step) {
  const Matrix& m = c.matrix;
  const std::int64_t bytes = count * prepared_bytes(m.format, m.inputs);
  std::vector<char> memory(static_cast<std::size_t>(bytes) + 64 + guard, 'g');
  char* prepared = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  prepare_rows(isa, m, c.x.data() + first * m.inputs, count, prepared);
  for (std::size_t i = 0; i < guard; ++i)
    EXPECT_EQ(prepared[bytes + static_cast<std::int64_t>(i)], 'g');
  std::vector<float> to(static_cast<std::size_t>(count * m.outputs) + guard, 77.0F);
  for (std::int64_t begin = 0; begin < m.outputs; begin += step)
    multiply_rows(isa, m, prepared, count, begin, std::min(m.outputs, begin + step),
                  to.data() + begin, m.outputs);
  for (std::size_t i = to.size() - guard; i < to.size(); ++i) EXPECT_EQ(to[i], 77.0F);
  to.resize(to.size() - guard);
  return to;
}

/// Calls `function` for each instruction set, and once more for AVX-512 without VNNI.
template <typename Function>
void each_way(const Function& function) {
  for (const Isa isa : op_tests::decoder_sets()) function(isa);
  if (!anyaccel::ops::has_isa(Isa::avx512)) return;
  anyaccel::ops::want_products_of_bytes(false);
  function(Isa::avx512);
  anyaccel::ops::want_products_of_bytes(true);
}

void check_with(Isa isa, Format format, std::int64_t outputs, std::int64_t inputs,
                std::int64_t group, bool asymmetric, std::int64_t row_count) {
  const MatrixCase c(format, outputs, inputs, group, asymmetric, row_count);
  SCOPED_TRACE(std::string(anyaccel::ops::to_string(isa)) + " " +
               std::to_string(static_cast<int>(format)) + " " + std::to_string(outputs) + " x " +
               std::to_string(inputs) + " group " + std::to_string(group));
  const auto together = multiplied(isa, c, 0, row_count, outputs + 4);
  for (std::int64_t r = 0; r < row_count; ++r) {
    for (std::int64_t o = 0; o < outputs; ++o)
      ASSERT_NEAR(together[static_cast<std::size_t>(r * outputs + o)], c.sum(r, o), c.bound(r, o))
          << r << " " << o;
    // A row's result must not change if the row is computed alone and its outputs are computed in
    // parts.
    const auto alone = multiplied(isa, c, r, 1, 16);
    ASSERT_EQ(std::memcmp(alone.data(), together.data() + r * outputs,
                          static_cast<std::size_t>(outputs) * 4),
              0);
  }
}

void check(Format format, std::int64_t outputs, std::int64_t inputs, std::int64_t group,
           bool asymmetric) {
  each_way([&](Isa isa) { check_with(isa, format, outputs, inputs, group, asymmetric, rows); });
}

// Fails if a product is wrong, a write is out of bounds, or a row's result depends on other rows or
// on how the outputs are divided.
TEST(InferenceProducts, Floats) {
  for (const Format format : {Format::f32, Format::bf16, Format::fp16})
    for (const auto& [outputs, inputs] : {std::pair{1, 1}, {7, 33}, {21, 64}, {36, 576}, {5, 95}})
      check(format, outputs, inputs, 0, false);
}

TEST(InferenceProducts, Int8) {
  for (const auto& [outputs, inputs, group] : {std::tuple{1, 32, 32},
                                               {7, 96, 32},
                                               {21, 192, 64},
                                               {36, 576, 64},
                                               {9, 384, 128},
                                               {5, 768, 768},
                                               {6, 288, 96}})
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

// Fails if the wrong scales are used for a row with more scales than the kernel caches. In some
// rows, the scales do not fill whole vectors.
TEST(InferenceProducts, LongRowsOfIntegers) {
  for (const auto& [inputs, group] :
       {std::tuple{2304, 128}, {2080, 32}, {4160, 64}, {8448, 128}, {8448, 384}}) {
    check(Format::int8, 5, inputs, group, false);
    for (const bool asymmetric : {false, true}) check(Format::int4, 5, inputs, group, asymmetric);
  }
}

// Fails if a sum of products of the largest values overflows its accumulator or has the wrong sign.
TEST(InferenceProducts, LargestSums) {
  for (const float sign : {1.0F, -1.0F})
    for (const Format format : {Format::int8, Format::int4}) {
      constexpr std::int64_t inputs = 256;
      const std::vector<float> x(inputs, sign);
      const std::vector<std::uint8_t> weight(4 * inputs, format == Format::int8 ? 0x80 : 0xff),
          zeros(4 * 2, 0);
      const std::vector<float> scales(4 * 2, 1.0F);
      const Matrix m{format,
                     4,
                     inputs,
                     128,
                     weight.data(),
                     scales.data(),
                     format == Format::int8 ? nullptr : zeros.data()};
      each_way([&](Isa isa) {
        std::vector<char> memory(static_cast<std::size_t>(prepared_bytes(format, inputs)) + 64);
        char* prepared =
            memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
        prepare_rows(isa, m, x.data(), 1, prepared);
        float to[4];
        multiply_rows(isa, m, prepared, 1, 0, 4, to, 4);
        const float want = sign * inputs * (format == Format::int8 ? -128.0F : 15.0F);
        for (const float each : to)
          EXPECT_NEAR(each, want, 1e-4F * std::abs(want)) << to_string(isa);
      });
    }
}

#if defined(__aarch64__)
/// One of the sets that extend NEON. Tests are skipped if the CPU lacks it.
class NeonProducts : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!anyaccel::ops::has_isa(GetParam()))
      GTEST_SKIP() << "this CPU does not support " << to_string(GetParam());
  }
};

std::vector<char> prepared_with(Isa isa, const MatrixCase& c) {
  std::vector<char> memory(
      static_cast<std::size_t>(prepared_bytes(c.matrix.format, c.matrix.inputs)) + 64);
  prepare_rows(isa, c.matrix, c.x.data(), 1,
               memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64);
  return memory;
}

// Fails if the set's own code is not used: it stores a row's integers as bytes, in its own order.
TEST_P(NeonProducts, HaveTheirOwnRowLayout) {
  const MatrixCase c(Format::int8, 4, 128, 128, false, 1);
  EXPECT_NE(prepared_with(GetParam(), c), prepared_with(Isa::neon, c));
  if (GetParam() != Isa::neon_dotprod) {
    EXPECT_NE(prepared_with(GetParam(), c), prepared_with(Isa::neon_dotprod, c));
  }
}

// Fails if a tile of several rows, the rows after the last tile, incomplete blocks at the end of a
// row, or groups of several blocks are computed incorrectly.
TEST_P(NeonProducts, AgreeWithExactSums) {
  for (const std::int64_t count : {1, 2, 3, 4, 9})
    for (const auto& [outputs, inputs, group] : {std::tuple{4, 32, 32},
                                                 {7, 160, 32},
                                                 {5, 320, 64},
                                                 {9, 512, 128},
                                                 {6, 480, 96},
                                                 {6, 576, 192},
                                                 {3, 768, 256}}) {
      check_with(GetParam(), Format::int8, outputs, inputs, group, false, count);
      for (const bool asymmetric : {false, true})
        check_with(GetParam(), Format::int4, outputs, inputs, group, asymmetric, count);
    }
}

INSTANTIATE_TEST_SUITE_P(Aarch64, NeonProducts,
                         testing::Values(Isa::neon_dotprod, Isa::neon_i8mm, Isa::neon_bf16),
                         [](const auto& set) { return std::string(to_string(set.param)); });
#endif

}  // namespace
