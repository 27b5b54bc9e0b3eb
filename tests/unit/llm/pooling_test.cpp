#include "llm/embed/pooling.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

namespace anyaccel::llm {
namespace {

const at::Tensor& tokens() {
  static const at::Tensor all =
      at::tensor({1.0F, -4.0F, 3.0F, -2.0F, 5.0F, -6.0F, 7.0F, -8.0F, 90.0F, 90.0F, 90.0F, 90.0F})
          .view({2, 3, 2});
  return all;
}

// The second text has one token, followed by padding that pooling must ignore.
at::Tensor counted() { return at::tensor({1, 1, 1, 1, 0, 0}).to(c10::kBool).view({2, 3}); }

void expect(const at::Tensor& got, std::initializer_list<float> want) {
  EXPECT_TRUE(at::allclose(got, at::tensor(want).view(got.sizes()), 1e-5, 1e-6)) << got;
}

// Fails if padding affects the result, or the wrong kind of pooling is used.
TEST(Pooling, Kinds) {
  const float root = std::sqrt(3.0F);
  expect(pool(tokens(), counted(), {Pooling::cls}), {1, -4, 7, -8});
  expect(pool(tokens(), counted(), {Pooling::max}), {5, -2, 7, -8});
  expect(pool(tokens(), counted(), {Pooling::mean}), {3, -4, 7, -8});
  expect(pool(tokens(), counted(), {Pooling::mean_sqrt_len}), {9 / root, -12 / root, 7, -8});
  expect(pool(tokens(), counted(), {Pooling::cls, Pooling::mean}), {1, -4, 3, -4, 7, -8, 7, -8});
}

// Fails if a batch without padding gives different results than one with a mask.
TEST(Pooling, WithoutPadding) {
  const at::Tensor one = tokens().narrow(0, 0, 1);
  const at::Tensor all = counted().narrow(0, 0, 1);
  for (const Pooling kind : {Pooling::cls, Pooling::max, Pooling::mean, Pooling::mean_sqrt_len}) {
    EXPECT_TRUE(at::allclose(pool(one, std::nullopt, {kind}), pool(one, all, {kind})));
  }
}

// Fails if normalizing a row of zeros gives NaN.
TEST(Pooling, Normalize) {
  expect(normalize_rows(at::tensor({3.0F, 4.0F, 0.0F, 0.0F}).view({2, 2})), {0.6F, 0.8F, 0, 0});
}

}  // namespace
}  // namespace anyaccel::llm
