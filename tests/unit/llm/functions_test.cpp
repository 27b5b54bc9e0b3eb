#include "llm/model/functions.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

namespace anyaccel::llm {
namespace {

at::Tensor input(at::IntArrayRef shape) {
  return at::randn(shape, at::kDouble).to(c10::kFloat).requires_grad_(true);
}

/// Gradients of sum(result * weight) with respect to the inputs.
std::vector<at::Tensor> gradients(const at::Tensor& result, const at::Tensor& weight,
                                  const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& tensor : inputs) tensor.mutable_grad().reset();
  result.mul(weight).sum().backward();
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : inputs) out.push_back(tensor.grad().clone());
  return out;
}

void expect_same(const at::Tensor& ours, const at::Tensor& theirs,
                 const std::vector<at::Tensor>& inputs) {
  EXPECT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-6));
  const at::Tensor weight = at::randn(ours.sizes());
  const auto mine = gradients(ours, weight, inputs);
  const auto reference = gradients(theirs, weight, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(at::allclose(mine[i], reference[i], 1e-4, 1e-5)) << i;
}

// Fails if the value or gradient of the norm differs from that of torch's rms_norm.
TEST(Functions, RmsNorm) {
  const at::Tensor x = input({2, 3, 8});
  const at::Tensor weight = input({8});
  expect_same(rms_norm(x, weight, 1e-5), at::rms_norm(x, {8}, weight, 1e-5), {x, weight});
}

// Fails if the gate and up halves are swapped, or a gradient is stored in the wrong half.
TEST(Functions, SwiGlu) {
  const at::Tensor x = input({2, 3, 10});
  expect_same(swiglu(x), at::silu(x.narrow(-1, 0, 5)).mul(x.narrow(-1, 5, 5)), {x});
}

// Fails if heads are split or rotated incorrectly, forward or backward. There are fewer key heads
// than query heads.
TEST(Functions, RotarySplit) {
  const std::int64_t heads = 4, kv_heads = 2, width = 6, time = 3;
  const at::Tensor x = input({2, time, (heads + 2 * kv_heads) * width});
  const at::Tensor cos = at::randn({time, width / 2});
  const at::Tensor sin = at::randn({time, width / 2});
  const auto [query, key, value] = rotary_split(x, cos, sin, heads, kv_heads);
  const at::Tensor parts = x.view({2, time, heads + 2 * kv_heads, width}).transpose(1, 2);
  const auto rotate = [&](const at::Tensor& part) {
    const at::Tensor first = part.narrow(-1, 0, width / 2),
                     second = part.narrow(-1, width / 2, width / 2);
    return at::cat({first.mul(cos).sub(second.mul(sin)), second.mul(cos).add(first.mul(sin))}, -1);
  };
  const at::Tensor ours = at::cat({query, key, value}, 1);
  const at::Tensor theirs = at::cat(
      {rotate(parts.narrow(1, 0, heads + kv_heads)), parts.narrow(1, heads + kv_heads, kv_heads)},
      1);
  expect_same(ours, theirs, {x});
}

// Fails if a model in float64 cannot use its rotation tables, which are in float32.
TEST(Functions, RotarySplitOfDoubles) {
  const std::int64_t heads = 2, kv_heads = 1, width = 6, time = 3;
  const at::Tensor x = input({2, time, (heads + 2 * kv_heads) * width});
  const at::Tensor wide = x.detach().to(c10::kDouble).requires_grad_(true);
  const at::Tensor cos = at::randn({time, width / 2});
  const at::Tensor sin = at::randn({time, width / 2});
  const at::Tensor want = std::get<0>(rotary_split(x, cos, sin, heads, kv_heads));
  const at::Tensor got = std::get<0>(rotary_split(wide, cos, sin, heads, kv_heads));
  EXPECT_EQ(got.scalar_type(), c10::kDouble);
  EXPECT_TRUE(at::allclose(got.to(c10::kFloat), want, 1e-5, 1e-6));
  got.sum().backward();
  EXPECT_TRUE(wide.grad().defined());
}

}  // namespace
}  // namespace anyaccel::llm
