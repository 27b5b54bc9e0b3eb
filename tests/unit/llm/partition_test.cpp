#include "llm/zero/partition.h"

#include <gtest/gtest.h>

#include <map>

namespace anyaccel::llm {
namespace {

constexpr std::int64_t kLine = Partition::kLine;

// Fails if an element of a parameter belongs to no rank or to two, if a part is not aligned, or if
// ranks disagree about a bucket.
TEST(Partition, EveryElementHasOneOwner) {
  const std::vector<PartitionItem> items{{7}, {100}, {1}, {1000}, {33}, {16}, {0}, {250}};
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::int64_t most : {1, 64, 300, 100000}) {
      std::vector<std::vector<int>> owners;
      for (const PartitionItem& item : items)
        owners.emplace_back(static_cast<std::size_t>(item.count), 0);
      const Partition first(items, most, 0, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const Partition partition(items, most, rank, ranks);
        ASSERT_EQ(partition.buckets().size(), first.buckets().size());
        std::int64_t owned = 0;
        for (std::size_t b = 0; b < partition.buckets().size(); ++b) {
          const PartitionBucket& bucket = partition.buckets()[b];
          EXPECT_EQ(bucket.parameters, first.buckets()[b].parameters);
          EXPECT_EQ(bucket.part % kLine, 0);
          owned += bucket.part;
          std::map<std::size_t, std::int64_t> offsets;
          for (std::size_t k = 0; k < bucket.parameters.size(); ++k)
            offsets[bucket.parameters[k]] = bucket.offsets[k];
          for (const OwnedSlice& slice : bucket.slices) {
            EXPECT_EQ(slice.bucket, b);
            EXPECT_EQ(slice.begin % kLine, 0);
            EXPECT_EQ(offsets.at(slice.parameter) + slice.begin, rank * bucket.part + slice.place);
            EXPECT_LE(slice.place + slice.count, bucket.part);
            for (std::int64_t i = 0; i < slice.count; ++i)
              ++owners[slice.parameter][static_cast<std::size_t>(slice.begin + i)];
          }
        }
        EXPECT_EQ(owned, partition.owned());
      }
      for (const auto& counts : owners)
        for (const int count : counts) EXPECT_EQ(count, 1);
    }
  }
}

// Fails if buckets exceed the limit, mix kinds, or are not in the order of the backward pass.
TEST(Partition, Buckets) {
  const std::vector<PartitionItem> items{{16, 0}, {32, 1}, {16, 0}, {500, 0}, {16, 0}, {16, 1}};
  const Partition partition(items, 64, 0, 2);
  std::vector<std::vector<std::size_t>> got;
  for (const PartitionBucket& bucket : partition.buckets()) got.push_back(bucket.parameters);
  EXPECT_EQ(got, (std::vector<std::vector<std::size_t>>{{4}, {3}, {5, 1}, {2, 0}}));
}

}  // namespace
}  // namespace anyaccel::llm
