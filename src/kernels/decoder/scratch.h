// Layout of scratch memory. Arrays begin at cache line boundaries.
#pragma once

#include <cstdint>

namespace anyaccel::ops {

inline std::int64_t rounded(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}
inline std::int64_t pieces(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

/// Reserves `bytes` bytes at offset `at` and returns that offset. Advances `at` to the next cache
/// line.
inline std::int64_t place(std::int64_t& at, std::int64_t bytes) {
  const std::int64_t begin = at;
  at += rounded(bytes, 64);
  return begin;
}

}  // namespace anyaccel::ops
