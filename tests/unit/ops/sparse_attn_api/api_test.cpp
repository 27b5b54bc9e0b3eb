// Tests sparse attention from C++ through the loaded op.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"
#include "anyaccel/ops/sparse_attention.h"

namespace anyaccel {
namespace {

using namespace ops;
using testing::HasSubstr;

std::int64_t count(const SparsityConfig& config, std::int64_t length) {
  return config.make_layout(length).sum().item<std::int64_t>();
}

// Fails if an option does not reach the op, or options are swapped.
TEST(SparsityConfig, EveryKind) {
  EXPECT_EQ(count(DenseSparsityConfig(2, {.block = 32}), 128), 2 * 16);
  EXPECT_EQ(
      count(FixedSparsityConfig(1, {.num_local_blocks = 2, .attention = "unidirectional"}), 64), 8);
  EXPECT_EQ(count(VariableSparsityConfig(1, {.num_random_blocks = 0,
                                             .local_window_blocks = {1, 2},
                                             .global_block_indices = {3}}),
                  64),
            9);
  EXPECT_EQ(
      count(BigBirdSparsityConfig(1, {.num_random_blocks = 0, .num_sliding_window_blocks = 1}), 64),
      10);
  EXPECT_EQ(count(BSLongformerSparsityConfig(
                      1, {.num_sliding_window_blocks = 1,
                          .global_block_indices = {0},
                          .global_block_end_indices = std::vector<std::int64_t>{2}}),
                  64),
            14);
  EXPECT_EQ(count(LocalSlidingWindowSparsityConfig(3, {.attention = "bidirectional"}), 48), 3 * 7);
  const auto birds = [](std::int64_t seed) {
    return BigBirdSparsityConfig(
               2, {.different_layout_per_head = true, .num_random_blocks = 3, .seed = seed})
        .make_layout(512);
  };
  EXPECT_TRUE(at::equal(birds(1), birds(1)));
  EXPECT_FALSE(at::equal(birds(1), birds(2)));
}

// Fails if an invalid option does not give a typed error with the op's message.
TEST(SparsityConfig, Errors) {
  try {
    FixedSparsityConfig(1, {.num_global_blocks = 3});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("is not divisible by num_global_blocks; got 3"));
  }
}

// Fails if the module uses the wrong part of its layout, ignores a mask, or does not compute
// gradients.
TEST(SparseSelfAttention, DenseLayoutEqualsDenseAttention) {
  const SparseSelfAttention attention(std::make_shared<DenseSparsityConfig>(2), "add", "mul", 256);
  const auto q = at::randn({1, 2, 64, 16}).requires_grad_();
  const auto k = at::randn({1, 2, 64, 16});
  const auto mask = at::ones({64, 64}).tril();
  const auto out = attention.forward(q, k, k, {}, {}, mask);
  const auto want = at::scaled_dot_product_attention(q.detach(), k, k, mask.to(at::kBool));
  EXPECT_TRUE(at::allclose(out, want, 1e-5, 1e-5));
  out.sum().backward();
  EXPECT_TRUE(q.grad().defined());
  EXPECT_THROW(attention.get_layout(65), Error);
  EXPECT_THROW(attention.get_layout(512), Error);
}

// Fails if padding is applied to the wrong dimension or has the wrong value.
TEST(PadToBlockSize, PadsToAMultiple) {
  const auto [padded, appended] = pad_to_block_size(at::ones({2, 10, 3}), 16, 1, 7);
  EXPECT_EQ(appended, 6);
  EXPECT_EQ(padded.sizes(), (std::vector<std::int64_t>{2, 16, 3}));
  EXPECT_EQ(padded.sum().item<double>(), 2 * 3 * (10 + 6 * 7));
  EXPECT_EQ(pad_to_block_size(padded, 16, -2).second, 0);
}

}  // namespace
}  // namespace anyaccel
