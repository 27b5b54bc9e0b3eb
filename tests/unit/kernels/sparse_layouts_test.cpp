#include "kernels/attention/sparse_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace {

using namespace anyaccel::ops;
using testing::HasSubstr;

/// The layout of one head as text, in which an x marks a block that is computed.
std::vector<std::string> drawn(const LayoutOptions& options, std::int64_t head = 0) {
  EXPECT_EQ(layout_error(options), "");
  const auto layout = make_layout(options);
  const auto blocks = static_cast<std::size_t>(options.seq_len / options.block);
  std::vector<std::string> rows;
  for (std::size_t row = 0; row < blocks; ++row) {
    rows.emplace_back();
    for (std::size_t column = 0; column < blocks; ++column)
      rows.back() +=
          layout[(static_cast<std::size_t>(head) * blocks + row) * blocks + column] ? 'x' : '.';
  }
  return rows;
}

using Rows = std::vector<std::string>;

LayoutOptions of(const char* kind, std::int64_t blocks, std::int64_t heads = 1) {
  LayoutOptions options;
  options.kind = kind;
  options.num_heads = heads;
  options.seq_len = blocks * options.block;
  return options;
}

// Fails if a window, its global block or a last window that is shorter than the others is
// misplaced.
TEST(SparseLayout, Fixed) {
  LayoutOptions options = of("fixed", 5);
  options.num_local_blocks = 2;
  EXPECT_EQ(drawn(options), (Rows{"xx.xx", "xx.xx", ".xxxx", ".xxxx", ".x.xx"}));
  options.attention = "unidirectional";
  EXPECT_EQ(drawn(options), (Rows{"x....", "xx...", ".xx..", ".xxx.", ".x.xx"}));
  options.attention = "bidirectional";
  options.horizontal_global_attention = true;
  EXPECT_EQ(drawn(options), (Rows{"xx.xx", "xxxxx", ".xxxx", "xxxxx", "xxxxx"}));
}

// Fails if an index that means "to the end" because it is very large causes an overflow.
TEST(SparseLayout, LargestIndices) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  LayoutOptions options = of("variable", 4);
  options.local_window_blocks = {1, most};
  options.global_block_indices = {most};
  EXPECT_EQ(drawn(options), (Rows{"x...", ".xxx", ".xxx", ".xxx"}));
  options.global_block_indices = {3};
  options.global_block_end_indices = {most};
  EXPECT_EQ(drawn(options), (Rows{"x..x", ".xxx", ".xxx", ".xxx"}));
  options = of("fixed", 3);
  options.num_local_blocks = most;
  EXPECT_EQ(drawn(options), (Rows{"xxx", "xxx", "xxx"}));
}

// Fails if heads do not alternate between patterns, or heads that share a layout differ.
TEST(SparseLayout, FixedPatternsOfHeads) {
  LayoutOptions options = of("fixed", 4, 3);
  options.num_local_blocks = 2;
  EXPECT_EQ(drawn(options, 2), (Rows{"xx.x", "xx.x", ".xxx", ".xxx"}));
  options.different_layout_per_head = true;
  options.num_different_global_patterns = 2;
  EXPECT_EQ(drawn(options, 0), (Rows{"xx.x", "xx.x", ".xxx", ".xxx"}));
  EXPECT_EQ(drawn(options, 1), (Rows{"xxx.", "xxx.", "x.xx", "x.xx"}));
  EXPECT_EQ(drawn(options, 2), drawn(options, 0));
}

// Fails if windows or global blocks of the given sizes are misplaced, or the last window size is
// not repeated.
TEST(SparseLayout, Variable) {
  LayoutOptions options = of("variable", 6);
  options.local_window_blocks = {1, 2};
  options.global_block_indices = {4, 9};
  EXPECT_EQ(drawn(options), (Rows{"x...x.", ".xx.x.", ".xx.x.", "...xx.", "...xx.", "....xx"}));
  options.global_block_indices = {1};
  options.global_block_end_indices = {3};
  options.attention = "unidirectional";
  EXPECT_EQ(drawn(options), (Rows{"x.....", ".xx...", ".xx...", ".xxx..", ".xxxx.", ".xx..x"}));
}

// Fails if the window's width or the global rows and columns are wrong, or a unidirectional layout
// contains future blocks.
TEST(SparseLayout, SlidingWindows) {
  LayoutOptions options = of("bslongformer", 5);
  options.global_block_indices = {2};
  EXPECT_EQ(drawn(options), (Rows{"xxx..", "xxx..", "xxxxx", "..xxx", "..xxx"}));
  options.attention = "unidirectional";
  EXPECT_EQ(drawn(options), (Rows{"x....", "xx...", "xxx..", "..xx.", "..xxx"}));
  LayoutOptions local = of("local", 4);
  EXPECT_EQ(drawn(local), (Rows{"xx..", "xxx.", ".xxx", "..xx"}));
  local.attention = "unidirectional";
  EXPECT_EQ(drawn(local), (Rows{"x...", "xx..", ".xx.", "..xx"}));
}

// Fails if a row repeats a column, or the sequence of random numbers changes, which would change
// the layouts of saved models.
TEST(SparseLayout, RandomBlocks) {
  LayoutOptions options = of("bigbird", 6);
  options.num_random_blocks = 0;
  EXPECT_EQ(drawn(options), (Rows{"xxxxxx", "xxx...", "xxxx..", "x.xxx.", "x..xxx", "x...xx"}));
  options.attention = "unidirectional";
  options.num_random_blocks = 2;
  for (const auto& row : drawn(options)) EXPECT_EQ(row[0], 'x');
  LayoutOptions variable = of("variable", 6);
  variable.local_window_blocks = {1};
  variable.global_block_indices = {};
  variable.num_random_blocks = 3;
  variable.seed = 7;
  EXPECT_EQ(drawn(variable), (Rows{"x..xxx", "xx.x.x", ".xxxx.", "..xxxx", "x...xx", "x..x.x"}));
}

// Fails if an option that DeepSpeed rejects is accepted, or an option can cause reads outside the
// layout.
TEST(SparseLayout, Errors) {
  LayoutOptions options = of("fixed", 4);
  options.num_global_blocks = 3;
  EXPECT_THAT(layout_error(options),
              HasSubstr("is not divisible by num_global_blocks; got 3, want a divisor of 4"));
  options.num_global_blocks = 1;
  options.num_different_global_patterns = 2;
  EXPECT_THAT(layout_error(options), HasSubstr("requires different_layout_per_head"));
  options = of("fixed", 4);
  options.attention = "unidirectional";
  options.horizontal_global_attention = true;
  EXPECT_THAT(layout_error(options), HasSubstr("requires bidirectional attention"));
  options = of("bslongformer", 4);
  options.global_block_indices = {0};
  options.global_block_end_indices = {0};
  EXPECT_THAT(layout_error(options), HasSubstr("ends before it begins"));
  options.global_block_end_indices = {1, 2};
  EXPECT_THAT(layout_error(options), HasSubstr("differ in length"));
  options = of("local", 2);
  EXPECT_THAT(layout_error(options), HasSubstr("too short for the random"));
  options = of("dense", 2);
  options.seq_len = 33;
  EXPECT_THAT(layout_error(options),
              HasSubstr("got 33, want a multiple of 16; use pad_to_block_size"));
  EXPECT_THAT(layout_error(of("spiral", 2)), HasSubstr("unknown layout"));
}

}  // namespace
