#include "comm/buckets.h"

#include <gtest/gtest.h>

namespace anyaccel::comm {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

// Breaks when a bucket is larger than its limit, the first is not small, or gradients leave their order.
TEST(Buckets, FirstSmallThenFull) {
  const std::vector<Sized> items{{10}, {10}, {10}, {40}, {40}, {20}, {1}};
  EXPECT_EQ(plan_buckets(items, 20, 100), (Buckets{{0, 1}, {2, 3, 4}, {5, 6}}));
  EXPECT_EQ(plan_buckets(items, 1000, 1000), (Buckets{{0, 1, 2, 3, 4, 5, 6}}));
}

// Breaks when a gradient that is larger than a bucket is left out, or takes others with it.
TEST(Buckets, ALargeOneIsAlone) {
  EXPECT_EQ(plan_buckets(std::vector<Sized>{{500}, {10}, {500}, {10}}, 20, 100), (Buckets{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(plan_buckets(std::vector<Sized>{{500}}, 20, 100), (Buckets{{0}}));
}

// Breaks when two dtypes share memory, or a bucket goes before one that is complete earlier.
TEST(Buckets, OneForEachKindInTheOrderOfCompletion) {
  const std::vector<Sized> items{{10, 0}, {10, 1}, {10, 0}, {10, 0}, {10, 1}, {10, 0}};
  EXPECT_EQ(plan_buckets(items, 20, 100), (Buckets{{0, 2}, {1, 4}, {3, 5}}));
}

}  // namespace
}  // namespace anyaccel::comm
