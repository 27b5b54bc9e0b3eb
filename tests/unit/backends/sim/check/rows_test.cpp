#include "backends/sim/check/rows.h"

#include <gtest/gtest.h>

namespace anyaccel::backends::sim::checking {
namespace {

using Values = std::vector<std::int64_t>;

struct Known : Rows {
  Known(int of_dim, std::optional<Values> known) : Rows(of_dim), rows(std::move(known)) {}
  std::optional<Values> values() override { return rows; }
  std::optional<Values> rows;
};

/// A float32 matrix of `rows` by `columns`. Rows are `stride` elements apart.
Region row_matrix(std::uintptr_t low, std::int64_t rows, std::int64_t columns,
                  std::int64_t stride) {
  Region region{.low = low, .item = 4, .dims = 2, .dense = columns == stride, .type = "float32"};
  region.high = low + static_cast<std::uintptr_t>((rows - 1) * stride + columns) * 4;
  region.sizes = {rows, columns};
  region.strides = {stride, 1};
  return region;
}

// Fails if a row has the wrong bytes, or a column counts as contiguous.
TEST(SimCheckRows, RegionOfARow) {
  const auto row = row_of(row_matrix(100, 8, 4, 4), 0, 2);
  EXPECT_EQ(row.low, 132U);
  EXPECT_EQ(row.high, 148U);
  EXPECT_TRUE(row.dense);
  const auto column = row_of(row_matrix(100, 8, 4, 4), 1, 3);
  EXPECT_EQ(column.low, 112U);
  EXPECT_EQ(column.high, 100U + (7 * 4 + 4) * 4);
  EXPECT_FALSE(column.dense);
}

// Fails if different rows of the same tensor count as overlapping, or a common row does not.
TEST(SimCheckRows, RowsOfTheSameTensor) {
  const auto tensor = row_matrix(0, 8, 4, 4);
  Known left(0, Values{0, 3}), right(0, Values{1, 2, 7}), common(0, Values{3, 4});
  EXPECT_FALSE(overlap(tensor, &left, tensor, &right));
  EXPECT_TRUE(overlap(tensor, &left, tensor, &common));
  EXPECT_TRUE(overlap(tensor, &left, tensor, nullptr));
}

// Fails if rows are compared with the wrong part of a view.
TEST(SimCheckRows, RowsAndViews) {
  const auto tensor = row_matrix(0, 8, 4, 4);
  Known rows(0, Values{0, 3});
  EXPECT_TRUE(overlap(tensor, &rows, row_matrix(48, 1, 4, 4), nullptr));   // row 3
  EXPECT_FALSE(overlap(tensor, &rows, row_matrix(16, 2, 4, 4), nullptr));  // rows 1 and 2
  Known columns(1, Values{1});
  EXPECT_TRUE(overlap(tensor, &rows, tensor, &columns));
  Known shifted(0, Values{2});
  EXPECT_TRUE(overlap(tensor, &rows, row_matrix(16, 4, 4, 4), &shifted));  // also row 3
}

// Fails if unknown rows, or too many to compare, count as disjoint.
TEST(SimCheckRows, UnknownRowsAreAllRows) {
  const auto tensor = row_matrix(0, 8, 4, 4);
  Known unknown(0, std::nullopt), known(0, Values{0}), other_dim(5, Values{0});
  EXPECT_TRUE(overlap(tensor, &unknown, tensor, &known));
  EXPECT_TRUE(overlap(tensor, &other_dim, tensor, nullptr));
  const auto large = row_matrix(0, 1000, 4, 4);
  Values many(1000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(i);
  Known all(0, many), columns(1, Values{0, 1, 2, 3});
  EXPECT_TRUE(overlap(large, &all, large, &columns));
}

}  // namespace
}  // namespace anyaccel::backends::sim::checking
