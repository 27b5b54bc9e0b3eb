// Groups gradients into buckets, each of which is reduced in one operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace anyaccel::comm {

/// Size and kind of a gradient. The kind represents dtype and device: gradients share a bucket only
/// if they have the same kind.
struct Sized {
  std::int64_t bytes = 0;
  int kind = 0;
};

/// Groups `items`, which become ready in this order, into buckets that each contain a single kind.
/// The first bucket of a kind has at most `first` bytes and the others at most `most`; a larger
/// item gets its own bucket. Buckets are sorted by the time at which they become complete. Every
/// item is in exactly one bucket.
std::vector<std::vector<std::size_t>> plan_buckets(std::span<const Sized> items, std::int64_t first,
                                                   std::int64_t most);

}  // namespace anyaccel::comm
