#include "comm/buckets.h"

#include <algorithm>
#include <map>

namespace anyaccel::comm {

std::vector<std::vector<std::size_t>> plan_buckets(std::span<const Sized> items, std::int64_t first,
                                                   std::int64_t most) {
  struct Open {
    std::vector<std::size_t> members;
    std::int64_t bytes = 0;
    std::int64_t limit = 0;
  };
  std::vector<std::vector<std::size_t>> buckets;
  std::map<int, Open> open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto [found, is_new] = open.try_emplace(items[i].kind);
    Open& bucket = found->second;
    if (is_new) bucket.limit = first;
    if (!bucket.members.empty() && bucket.bytes + items[i].bytes > bucket.limit) {
      buckets.push_back(std::move(bucket.members));
      bucket = {.limit = most};
    }
    bucket.members.push_back(i);
    bucket.bytes += items[i].bytes;
  }
  for (auto& [kind, bucket] : open) buckets.push_back(std::move(bucket.members));
  std::sort(buckets.begin(), buckets.end(),
            [](const auto& a, const auto& b) { return a.back() < b.back(); });
  return buckets;
}

}  // namespace anyaccel::comm
