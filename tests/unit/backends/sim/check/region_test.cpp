#include "backends/sim/check/region.h"

#include <gtest/gtest.h>

namespace anyaccel::backends::sim::checking {
namespace {

Region dense(std::uintptr_t low, std::uintptr_t high) { return {.low = low, .high = high}; }

/// A float32 matrix of `rows` by `columns`. Rows are `stride` elements apart.
Region matrix(std::uintptr_t low, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  Region region{.low = low, .item = 4, .dims = 2, .dense = columns == stride, .type = "float32"};
  region.high = low + static_cast<std::uintptr_t>((rows - 1) * stride + columns) * 4;
  region.sizes = {rows, columns};
  region.strides = {stride, 1};
  return region;
}

// Fails if adjacent regions count as overlapping, or regions with a common byte do not.
TEST(SimCheckRegion, EndIsExclusive) {
  EXPECT_FALSE(overlap(dense(0, 16), dense(16, 32)));
  EXPECT_TRUE(overlap(dense(0, 17), dense(16, 32)));
  EXPECT_TRUE(overlap(dense(0, 32), dense(8, 9)));
}

// Fails if disjoint columns of a matrix count as overlapping because their address ranges overlap.
TEST(SimCheckRegion, DisjointColumnsDoNotOverlap) {
  const auto left = matrix(0, 8, 4, 8);
  EXPECT_FALSE(overlap(left, matrix(16, 8, 4, 8)));
  EXPECT_TRUE(overlap(left, matrix(12, 8, 4, 8)));
  EXPECT_TRUE(overlap(left, matrix(0, 8, 8, 8)));
  EXPECT_FALSE(overlap(left, dense(16, 32)));
  EXPECT_TRUE(overlap(left, dense(16, 33)));
}

// Fails if tensors that consist of too many pieces for an exact comparison do not count as
// overlapping.
TEST(SimCheckRegion, ManyPiecesCountAsOverlapping) {
  const auto one = matrix(0, 1 << 22, 1, 2), other = matrix(4, 1 << 22, 1, 2);
  EXPECT_TRUE(overlap(one, other));
}

// Fails if the overlap of expanded tensors, which have a stride of 0, is wrong.
TEST(SimCheckRegion, BroadcastDimensions) {
  auto wide = matrix(0, 1000, 4, 0);
  wide.high = 16;
  wide.dense = false;
  EXPECT_TRUE(overlap(wide, dense(12, 16)));
  EXPECT_FALSE(overlap(wide, dense(16, 20)));
}

// Fails if a tensor with gaps counts as covering the gaps.
TEST(SimCheckRegion, GapsAreNotCovered) {
  EXPECT_TRUE(covers(dense(0, 64), dense(0, 64)));
  EXPECT_FALSE(covers(dense(0, 64), dense(32, 65)));
  EXPECT_FALSE(covers(matrix(0, 8, 4, 8), dense(16, 32)));
}

// Fails if the text of a region lacks the dtype or shape.
TEST(SimCheckRegion, TextHasTheShape) {
  EXPECT_EQ(shape_text(matrix(0, 2, 3, 3)), "float32 [2, 3]");
  EXPECT_EQ(shape_text(dense(0, 100)), "100 bytes");
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
