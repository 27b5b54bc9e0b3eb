// Tests the quantizers from C++ through the loaded ops.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"
#include "anyaccel/ops/fp_quantizer.h"
#include "anyaccel/ops/quantizer.h"

namespace anyaccel {
namespace {

namespace fp_quantizer = ops::fp_quantizer;
namespace quantizer = ops::quantizer;
using quantizer::QuantizationType;
using testing::HasSubstr;

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "none";
}

// Fails if arguments are swapped on their way to the op.
TEST(QuantizerApi, RoundTrip) {
  const at::Tensor x = at::randn({6, 32}) + 1;
  for (const auto type : {QuantizationType::symmetric, QuantizationType::asymmetric})
    for (const std::int64_t bits : {8, 4}) {
      const auto made = quantizer::quantize(x, 12, bits, type);
      EXPECT_EQ(made.codes.sizes(), (std::vector<std::int64_t>{6, 32 * bits / 8}));
      EXPECT_EQ(made.params.sizes(),
                (std::vector<std::int64_t>{12, type == QuantizationType::asymmetric ? 2 : 1}));
      const at::Tensor read = quantizer::dequantize(made, 12, bits, type, at::kFloat);
      EXPECT_LE((read - x).abs().max().item<float>(), bits == 8 ? 0.05 : 0.8);
      EXPECT_TRUE(at::equal(quantizer::dequantize(made, 12, bits, type), read.to(at::kHalf)));
      // For two nodes with two receivers each, the node and receiver dimensions are swapped.
      const auto swizzled = quantizer::swizzle_quant(x, 12, bits, type, 1, 2, 2);
      const at::Tensor parts = made.params.view({2, 2, 3, -1}).transpose(0, 1).reshape({12, -1});
      EXPECT_TRUE(at::equal(swizzled.params, parts));
      const auto sum =
          quantizer::quantized_reduction({at::cat({made.codes.view(-1), made.codes.view(-1)}),
                                          at::cat({made.params, made.params})},
                                         24, 6, bits, type, 2);
      EXPECT_EQ(sum.params.size(0), 6);
      EXPECT_LE((quantizer::dequantize(sum, 6, bits, type, at::kFloat) - 2 * read.view(-1))
                    .abs()
                    .max()
                    .item<float>(),
                bits == 8 ? 0.1 : 1.6);
    }
}

TEST(QuantizerApi, Halves) {
  // Fails if scale and minimum, or the number and size of groups, are swapped.
  const auto halves = [](at::ArrayRef<double> values) { return at::tensor(values).to(at::kHalf); };
  const at::Tensor codes = at::tensor({0x12, 0x30, 0xff, 0x80}).to(at::kByte);
  EXPECT_TRUE(
      at::equal(quantizer::dequantize_to_half(codes, halves({2, 4}), halves({1, -1}), 2, 4, 4),
                halves({1.5, 2, 2.5, 1, 2.75, 2.75, 1, -1}).view({2, 4})));
}

// Fails if an error from the op is not converted to anyaccel::Error, or mentions Python functions.
TEST(QuantizerApi, Errors) {
  const at::Tensor x = at::ones({4, 8});
  EXPECT_THAT(error_of([&] { quantizer::quantize(x, 3, 8); }),
              HasSubstr("the number of elements is not divisible by groups; got 3, want"));
  EXPECT_THAT(error_of([&] { quantizer::quantize(x, 4, 5); }), HasSubstr("got 5, want 4 or 8"));
  EXPECT_THAT(error_of([&] {
                quantizer::dequantize({x, x}, 4, 8);
              }),
              HasSubstr("want int8 or uint8"));
  EXPECT_THAT(error_of([&] { fp_quantizer::quantize(x, x, 8, false, 8, 3); }),
              HasSubstr("want uint8"));
}

// Fails if the numbers of mantissa and exponent bits are swapped, or the seed is swapped with
// another argument.
TEST(FpQuantizerApi, RoundTrip) {
  const at::Tensor x = at::randn({8, 48}, at::kBFloat16);
  struct Format {
    std::int64_t bits, mantissa;
    double near;
  };
  for (const auto& [bits, mantissa, near] :
       {Format{8, 3, 0.07}, {8, 2, 0.13}, {12, 4, 0.02}, {6, 2, 0.3}, {4, 1, 0.6}}) {
    const auto rows = [&] { return at::empty({8, fp_quantizer::row_bytes(48, bits)}, at::kByte); };
    const at::Tensor out = rows(), read = at::empty({8, 48}), chosen = at::empty({2, 48});
    fp_quantizer::quantize(out, x, 48, false, bits, mantissa);
    fp_quantizer::dequantize(read, out, 48, mantissa, bits - mantissa - 1);
    EXPECT_TRUE(at::allclose(read, x.to(at::kFloat), near, 3 * near)) << bits;
    fp_quantizer::selective_dequantize(chosen, out, at::tensor({5, 2}), 48, mantissa,
                                       bits - mantissa - 1);
    EXPECT_TRUE(at::equal(chosen, at::cat({read.slice(0, 5, 6), read.slice(0, 2, 3)})));
    const at::Tensor one = rows(), same = rows(), other = rows();
    fp_quantizer::quantize(one, x, 48, true, bits, mantissa, 1);
    fp_quantizer::quantize(same, x, 48, true, bits, mantissa, 1);
    fp_quantizer::quantize(other, x, 48, true, bits, mantissa, 2);
    EXPECT_TRUE(at::equal(one, same));
    EXPECT_FALSE(at::equal(one, other) || at::equal(one, out));
    EXPECT_THAT(error_of([&] {
                  fp_quantizer::selective_dequantize(chosen, out, at::tensor({5, 8}), 48, mantissa,
                                                     bits - mantissa - 1);
                }),
                HasSubstr("an index is out of range; got 8"));
  }
}

}  // namespace
}  // namespace anyaccel
