// Tests the conversions between float and the 16-bit types by running the Adam kernel.
#include "kernels/optimizer/adam.h"
#include "unit/kernels/arrays.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

/// Converts `values` to the type `to`: with beta1 = 0, exp_avg after a step is the gradient in the
/// type of the state.
std::vector<std::uint32_t> converted(Isa isa, const std::vector<float>& values, Element to) {
  const auto n = static_cast<std::int64_t>(values.size());
  Array params(to, n, 3);
  Array grads(Element::f32, n, 1);
  Array exp_avg(to, n, 5);
  Array exp_avg_sq(to, n, 0);
  std::memcpy(grads.data(), values.data(), values.size() * 4);
  for (std::int64_t i = 0; i < n; ++i) {
    params.set(i, 0);
    exp_avg.set(i, 0);
    exp_avg_sq.set(i, 0);
  }
  adam_update(
      isa, adam_constants({.beta1 = 0}, 1),
      {params.data(), grads.data(), exp_avg.data(), exp_avg_sq.data(), to, Element::f32, to}, 0, n);
  std::vector<std::uint32_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(exp_avg.bits(i));
  return out;
}

// Fails if a conversion rounds incorrectly, loses subnormal numbers, or changes infinity or NaN.
TEST(Elements, FloatsRoundToNearest) {
  Random random(4);
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    for (const std::uint32_t lower : {0U, 0x7fffU, 0x8000U, 0x8001U})
      values.push_back(std::bit_cast<float>((upper << 16) | lower));
    values.push_back(static_cast<float>(random.value(-9, 6)));  // covers the range of float16
    values.push_back(std::ldexp(static_cast<float>(upper & 0xfffU) + 0.5F, -26));
  }
  for (const Element to : {Element::bf16, Element::fp16})
    for (const Isa isa : sets()) {
      const auto bits = converted(isa, values, to);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) {
          ASSERT_TRUE(std::isnan(from_bits(bits[i], to))) << to_string(isa);
          continue;
        }
        // The kernel computes +0 plus the gradient, so a gradient of -0 becomes +0.
        const std::uint32_t expected = values[i] == 0 ? 0 : to_bits(values[i], to);
        ASSERT_EQ(bits[i], expected) << to_string(isa) << " " << values[i];
      }
    }
}

// Fails if a load misreads a 16-bit number.
TEST(Elements, AllSixteenBitNumbersAreRead) {
  for (const Element from : {Element::bf16, Element::fp16})
    for (const Isa isa : sets()) {
      constexpr std::int64_t n = 0x10000;
      Array params(from, n, 0);
      Array grads(from, n, 7);
      Array exp_avg(Element::f32, n, 1);
      Array exp_avg_sq(Element::f32, n, 0);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        std::memcpy(static_cast<char*>(grads.data()) + 2 * i, &bits, 2);
        params.set(i, 0);
        exp_avg.set(i, 0);
        exp_avg_sq.set(i, 0);
      }
      adam_update(isa, adam_constants({.beta1 = 0}, 1),
                  {params.data(), grads.data(), exp_avg.data(), exp_avg_sq.data(), from, from,
                   Element::f32},
                  0, n);
      for (std::int64_t i = 0; i < n; ++i) {
        const double expected = from_bits(static_cast<std::uint32_t>(i), from);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(exp_avg.get(i))) << to_string(isa) << " " << i;
        } else {
          ASSERT_EQ(exp_avg.get(i), expected) << to_string(isa) << " " << i;
        }
      }
    }
}

}  // namespace
