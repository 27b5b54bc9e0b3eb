#include "comm/buckets.h"

#include <gtest/gtest.h>

namespace anyaccel::comm {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

// Fails if a bucket exceeds its limit, or gradients are reordered.
TEST(Buckets, FirstSmallThenFull) {
  const std::vector<Sized> items{{10}, {10}, {10}, {40}, {40}, {20}, {1}};
  EXPECT_EQ(plan_buckets(items, 20, 100), (Buckets{{0, 1}, {2, 3, 4}, {5, 6}}));
  EXPECT_EQ(plan_buckets(items, 1000, 1000), (Buckets{{0, 1, 2, 3, 4, 5, 6}}));
}

// Fails if a gradient larger than the limit does not get a separate bucket.
TEST(Buckets, LargeGradientGetsItsOwnBucket) {
  EXPECT_EQ(plan_buckets(std::vector<Sized>{{500}, {10}, {500}, {10}}, 20, 100),
            (Buckets{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(plan_buckets(std::vector<Sized>{{500}}, 20, 100), (Buckets{{0}}));
}

// Fails if two dtypes share a bucket, or buckets are not in the order in which their last gradients
// become ready.
TEST(Buckets, DtypesAreSeparateInOrderOfCompletion) {
  const std::vector<Sized> items{{10, 0}, {10, 1}, {10, 0}, {10, 0}, {10, 1}, {10, 0}};
  EXPECT_EQ(plan_buckets(items, 20, 100), (Buckets{{0, 2}, {1, 4}, {3, 5}}));
}

}  // namespace
}  // namespace anyaccel::comm
