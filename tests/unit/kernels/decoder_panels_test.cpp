// Multiplies many rows by panels of a matrix with each instruction set, in float and bf16, and
// compares the results with sums in double precision.
#include "kernels/decoder/panels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "unit/kernels/matrix_case.h"

namespace {

using anyaccel::ops::Element;
using anyaccel::ops::Format;
using anyaccel::ops::Isa;
using anyaccel::ops::Wide;
using op_tests::MatrixCase;

constexpr std::size_t guard = 64;

/// Memory aligned to a cache line, with guard bytes at its end.
class Lines {
 public:
  explicit Lines(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)), memory_(bytes_ + 64 + guard, 'g') {}
  char* data() {
    return memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }
  bool whole() {
    for (std::size_t i = 0; i < guard; ++i)
      if (data()[bytes_ + i] != 'g') return false;
    return true;
  }

 private:
  std::size_t bytes_;
  std::vector<char> memory_;
};

std::vector<std::pair<Isa, Wide>> ways() {
  std::vector<std::pair<Isa, Wide>> out;
  for (const Isa isa : op_tests::sets()) {
    out.emplace_back(isa, Wide::f32);
    if (anyaccel::ops::wide_for(isa, Element::bf16) == Wide::bf16)
      out.emplace_back(isa, Wide::bf16);
  }
  return out;
}

/// `value` after conversion to the type in which products are computed.
double converted(Wide wide, double value) {
  return wide == Wide::f32 ? value : op_tests::rounded(value, Element::bf16);
}

struct Product {
  std::vector<float> values;  ///< [rows][panel_outputs]
  Product(Isa isa, Wide wide, const float* x, std::int64_t rows, std::int64_t inputs, char* panel) {
    const std::int64_t x_row = anyaccel::ops::wide_row_bytes(wide, inputs);
    Lines wide_x(rows * x_row);
    for (std::int64_t r = 0; r < rows; ++r)
      anyaccel::ops::widen_row(isa, wide, x + r * inputs, inputs, wide_x.data() + r * x_row);
    EXPECT_TRUE(wide_x.whole());
    values.assign(static_cast<std::size_t>(rows * anyaccel::ops::panel_outputs) + guard, 77.0F);
    anyaccel::ops::multiply_panel(isa, wide, panel, inputs, wide_x.data(), x_row, rows,
                                  values.data(), anyaccel::ops::panel_outputs);
    for (std::size_t i = values.size() - guard; i < values.size(); ++i) EXPECT_EQ(values[i], 77.0F);
  }
};

void check(Format format, std::int64_t outputs, std::int64_t inputs, std::int64_t group,
           bool asymmetric, std::int64_t rows) {
  const MatrixCase c(format, outputs, inputs, group, asymmetric, rows);
  for (const auto& [isa, wide] : ways()) {
    SCOPED_TRACE(std::string(anyaccel::ops::to_string(isa)) +
                 (wide == Wide::bf16 ? " pairs " : " floats ") +
                 std::to_string(static_cast<int>(format)) + " " + std::to_string(outputs) + " x " +
                 std::to_string(inputs) + " rows " + std::to_string(rows));
    Lines panel(anyaccel::ops::panel_bytes(wide, inputs)),
        scratch(anyaccel::ops::panel_scratch_bytes(inputs));
    for (std::int64_t begin = 0; begin < outputs; begin += anyaccel::ops::panel_outputs) {
      anyaccel::ops::make_panel(isa, wide, c.matrix, begin, scratch.data(), panel.data());
      ASSERT_TRUE(panel.whole() && scratch.whole());
      const Product product(isa, wide, c.x.data(), rows, inputs, panel.data());
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t o = 0; o < anyaccel::ops::panel_outputs; ++o) {
          const float got =
              product.values[static_cast<std::size_t>(r * anyaccel::ops::panel_outputs + o)];
          if (begin + o >= outputs) {
            ASSERT_EQ(got, 0);
            continue;
          }
          double sum = 0, size = 0;
          for (std::int64_t i = 0; i < inputs; ++i) {
            const double term =
                converted(wide, c.x[static_cast<std::size_t>(r * inputs + i)]) *
                converted(wide, c.values[static_cast<std::size_t>((begin + o) * inputs + i)]);
            sum += term;
            size += std::abs(term);
          }
          ASSERT_NEAR(got, sum, size * 2e-6 + 1e-6) << r << " " << begin + o;
        }
    }
  }
}

// Fails if a format is converted incorrectly, an input, output or row at an edge is lost, or a
// write is out of bounds.
TEST(InferencePanels, Floats) {
  for (const Format format : {Format::f32, Format::bf16, Format::fp16})
    for (const auto& [outputs, inputs, rows] : {std::tuple{1, 1, 1},
                                                {7, 33, 5},
                                                {64, 64, 17},
                                                {130, 96, 23},
                                                {70, 95, 6},
                                                {3, 2048, 8},
                                                {65, 31, 4}})
      check(format, outputs, inputs, 0, false, rows);
}

TEST(InferencePanels, Integers) {
  for (const bool asymmetric : {false, true})
    for (const auto& [outputs, inputs, group] : {std::tuple{1, 32, 32},
                                                 {7, 96, 32},
                                                 {66, 192, 64},
                                                 {36, 576, 64},
                                                 {9, 384, 128},
                                                 {6, 576, 192}}) {
      check(Format::int4, outputs, inputs, group, asymmetric, 19);
      if (!asymmetric) check(Format::int8, outputs, inputs, group, false, 19);
    }
}

// Fails if a transposed matrix, such as the values in attention, is read with a wrong stride or
// past its last row.
TEST(InferencePanels, Transposed) {
  op_tests::Random random(5);
  for (const auto& [isa, wide] : ways())
    for (const auto& [inputs, columns, rows] :
         {std::tuple{1, 1, 1}, {17, 64, 7}, {32, 80, 18}, {63, 100, 12}})
      for (const Element type : {Element::f32, Element::bf16, Element::fp16}) {
        if (wide == Wide::bf16 && type != Element::bf16) continue;
        op_tests::Array values(type, inputs * columns, 3);
        std::vector<float> x;
        for (std::int64_t i = 0; i < values.size(); ++i) values.set(i, random.between(-1, 1));
        for (std::int64_t i = 0; i < rows * inputs; ++i)
          x.push_back(static_cast<float>(random.between(-1, 1)));
        Lines panel(anyaccel::ops::panel_bytes(wide, inputs));
        for (std::int64_t begin = 0; begin < columns; begin += anyaccel::ops::panel_outputs) {
          anyaccel::ops::make_turned_panel(isa, wide, values.data(), type, inputs, columns, begin,
                                           panel.data());
          ASSERT_TRUE(panel.whole());
          const Product product(isa, wide, x.data(), rows, inputs, panel.data());
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t o = 0; o < anyaccel::ops::panel_outputs; ++o) {
              double sum = 0;
              for (std::int64_t i = 0; i < inputs && begin + o < columns; ++i)
                sum += converted(wide, x[static_cast<std::size_t>(r * inputs + i)]) *
                       values.get(i * columns + begin + o);
              ASSERT_NEAR(
                  product.values[static_cast<std::size_t>(r * anyaccel::ops::panel_outputs + o)],
                  sum, 1e-4);
            }
        }
      }
}

#if defined(__aarch64__)
// Fails if processors with bfloat16 products use panels of floats. The tests above would then not
// cover panels of bfloat16 elements.
TEST(InferencePanels, Bf16OnAarch64) {
  if (!anyaccel::ops::has_isa(Isa::neon_bf16))
    GTEST_SKIP() << "this CPU does not support neon_bf16";
  EXPECT_EQ(anyaccel::ops::wide_for(Isa::neon_bf16, Element::bf16), Wide::bf16);
  EXPECT_TRUE(anyaccel::ops::panels_pay(Isa::neon_bf16, Element::bf16));
  EXPECT_FALSE(anyaccel::ops::panels_pay(Isa::neon_i8mm, Element::bf16));
}
#endif

}  // namespace
