// Which gradients are reduced together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace anyaccel::comm {

/// A gradient: its size, and which others it may share memory with.
struct Sized {
  std::int64_t bytes = 0;
  int kind = 0;
};

/// Groups `items`, which come in this order, into buckets of one kind: at most `first` bytes in a
/// kind's first bucket and `most` in the others, or a single larger item. Buckets are in the order
/// in which they are complete. Every item is in one of them.
std::vector<std::vector<std::size_t>> plan_buckets(std::span<const Sized> items, std::int64_t first,
                                                   std::int64_t most);

}  // namespace anyaccel::comm
