// Multiplies few rows by a weight matrix with each instruction set and compares the results with
// sums in double precision.
#include "kernels/transformer/skinny_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/kernels/arrays.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

constexpr float guard = 77;

/// An array followed by guard elements, which must not change.
std::vector<float> guarded(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count + 32), guard);
}

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(count));
  Random random(seed);
  for (float& value : out) value = static_cast<float>(random.between(-1, 1));
  return out;
}

void expect_guard(const std::vector<float>& memory) {
  for (std::size_t i = memory.size() - 32; i < memory.size(); ++i) ASSERT_EQ(memory[i], guard);
}

struct Case {
  SkinnyGemm product;
  std::vector<float> weight, inputs, outputs, bias;

  Case(std::int64_t rows, std::int64_t out, std::int64_t in)
      : product{rows, out, in, nullptr},
        weight(numbers(out * in, 1)),
        inputs(numbers(rows * in, 2)),
        outputs(numbers(rows * out, 3)),
        bias(numbers(out, 4)) {
    product.weight = weight.data();
  }
  double forward(std::int64_t row, std::int64_t output) const {
    double sum = 0;
    for (std::int64_t i = 0; i < product.inputs; ++i)
      sum += double{inputs[static_cast<std::size_t>(row * product.inputs + i)]} *
             weight[static_cast<std::size_t>(output * product.inputs + i)];
    return sum;
  }
  double backward(std::int64_t row, std::int64_t input) const {
    double sum = 0;
    for (std::int64_t i = 0; i < product.outputs; ++i)
      sum += double{outputs[static_cast<std::size_t>(row * product.outputs + i)]} *
             weight[static_cast<std::size_t>(i * product.inputs + input)];
    return sum;
  }
};

void check_forward(Isa isa, const Case& c, bool biased) {
  const SkinnyGemm& p = c.product;
  auto packed = guarded(skinny_gemm_packed(p)), to = guarded(p.rows * p.outputs);
  for (std::int64_t at = 0; at < p.inputs; at += 32)
    pack_skinny_gemm(isa, p, c.inputs.data(), at, at + 32, packed.data());
  expect_guard(packed);
  for (std::int64_t output = 0; output < p.outputs; output += skinny_gemm_outputs)
    skinny_gemm_forward(isa, p, packed.data(), biased ? c.bias.data() : nullptr, output, to.data());
  expect_guard(to);
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t i = 0; i < p.outputs; ++i)
      ASSERT_NEAR(to[static_cast<std::size_t>(row * p.outputs + i)],
                  c.forward(row, i) + (biased ? double{c.bias[static_cast<std::size_t>(i)]} : 0.0),
                  2e-5)
          << row << " " << i;
}

void check_backward(Isa isa, const Case& c, bool add) {
  const SkinnyGemm& p = c.product;
  auto to = guarded(p.rows * p.inputs);
  std::fill_n(to.begin(), p.rows * p.inputs, 0.5F);
  // Splits the outputs into two ranges, as for two threads.
  const std::int64_t half = p.inputs / 2 / skinny_gemm_outputs * skinny_gemm_outputs;
  if (half) skinny_gemm_backward(isa, p, c.outputs.data(), add, 0, half, to.data());
  skinny_gemm_backward(isa, p, c.outputs.data(), add, half, p.inputs, to.data());
  expect_guard(to);
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t i = 0; i < p.inputs; ++i)
      ASSERT_NEAR(to[static_cast<std::size_t>(row * p.inputs + i)],
                  c.backward(row, i) + (add ? 0.5 : 0.0), 2e-5)
          << row << " " << i;
}

// Fails if the product for any instruction set is wrong, forward or backward. Covers tiles,
// leftover rows, biases and ranges.
TEST(SkinnyGemm, InstructionSetsAgreeWithDouble) {
  struct Size {
    std::int64_t outputs, inputs;
  };
  for (const std::int64_t rows : {1, 7, 16, 20, 33, 63, 64})
    for (const Size& size : {Size{32, 32}, Size{96, 64}, Size{160, 96}}) {
      const Case c(rows, size.outputs, size.inputs);
      for (const Isa isa : sets()) {
        SCOPED_TRACE(std::string(to_string(isa)) + " " + std::to_string(rows) + " " +
                     std::to_string(size.outputs));
        for (const bool other : {false, true}) {
          check_forward(isa, c, other);
          check_backward(isa, c, other);
        }
      }
    }
}

}  // namespace
