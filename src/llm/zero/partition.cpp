#include "llm/zero/partition.h"

#include <algorithm>
#include <map>

namespace anyaccel::llm {

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Partition::Partition(std::span<const PartitionItem> items, std::int64_t most, int rank, int ranks)
    : rank_(rank), ranks_(ranks) {
  struct Open {
    std::vector<std::size_t> members;
    std::int64_t size = 0;
  };
  std::map<int, Open> open;
  std::vector<std::vector<std::size_t>> plans;
  for (std::size_t i = items.size(); i-- > 0;) {
    Open& bucket = open[items[i].kind];
    const std::int64_t room = round_up(items[i].count, kLine);
    if (!bucket.members.empty() && bucket.size + room > most) {
      plans.push_back(std::move(bucket.members));
      bucket = {};
    }
    bucket.members.push_back(i);
    bucket.size += room;
  }
  for (auto& [kind, bucket] : open) plans.push_back(std::move(bucket.members));
  // Sort by the time at which the last gradient is computed.
  std::sort(plans.begin(), plans.end(),
            [](const auto& a, const auto& b) { return a.back() > b.back(); });
  for (auto& members : plans) add(std::move(members), items);
}

void Partition::add(std::vector<std::size_t> members, std::span<const PartitionItem> items) {
  PartitionBucket bucket;
  std::int64_t size = 0;
  for (const std::size_t member : members) {
    bucket.offsets.push_back(size);
    size += round_up(items[member].count, kLine);
  }
  bucket.part = round_up(round_up(size, ranks_) / ranks_, kLine);
  const std::int64_t begin = bucket.part * rank_, end = begin + bucket.part;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t offset = bucket.offsets[i];
    const std::int64_t from = std::max(begin, offset);
    const std::int64_t to = std::min(end, offset + items[members[i]].count);
    if (from >= to) continue;
    bucket.slices.push_back({.parameter = members[i],
                             .bucket = buckets_.size(),
                             .begin = from - offset,
                             .count = to - from,
                             .place = from - begin});
  }
  bucket.parameters = std::move(members);
  owned_ += bucket.part;
  buckets_.push_back(std::move(bucket));
}

}  // namespace anyaccel::llm
