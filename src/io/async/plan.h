// Pure functions that split a range of a file into blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace anyaccel::ops::aio {

/// Bytes [begin, end) of a file.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t bytes() const noexcept { return end - begin; }
  bool operator==(const Range&) const = default;
};

inline std::int64_t round_down(std::int64_t value, std::int64_t unit) {
  return value / unit * unit;
}
inline std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return round_down(value + unit - 1, unit);
}
inline bool is_whole(const Range& range, std::int64_t unit) {
  return range.begin % unit == 0 && range.end % unit == 0;
}

/// Returns the first block of a range. If the range begins between two multiples of `unit`, the
/// block ends at the next multiple (the head). Otherwise it consists of whole units, about `block`
/// bytes at most, or of the rest of the range if less than a unit remains (the tail).
inline Range first_piece(const Range& range, std::int64_t unit, std::int64_t block) {
  const auto head = round_up(range.begin, unit);
  if (head != range.begin) return {range.begin, std::min(head, range.end)};
  const auto whole = round_down(range.end, unit);
  if (whole <= range.begin) return range;
  return {range.begin, std::min(whole, range.begin + std::max(round_down(block, unit), unit))};
}

/// Splits a range into at most `parts` consecutive ranges of about the same size. The boundaries
/// between them are multiples of `unit`, and only the last range may be smaller than `block`.
inline std::vector<Range> split(const Range& range, int parts, std::int64_t unit,
                                std::int64_t block) {
  std::vector<Range> out;
  const auto size = std::max(block, (range.bytes() + parts - 1) / parts);
  auto begin = range.begin;
  while (begin < range.end) {
    const auto end = static_cast<int>(out.size()) + 1 == parts
                         ? range.end
                         : std::min(range.end, round_up(begin + size, unit));
    out.push_back({begin, end});
    begin = end;
  }
  return out;
}

}  // namespace anyaccel::ops::aio
