// The bytes that a kernel accesses. Does not use torch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace anyaccel::backends::sim::checking {

/// Bytes of one tensor: all of [low, high) if dense, otherwise the items that sizes and strides
/// select, starting at `low`.
struct Region {
  static constexpr int kMaxDims = 6;

  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  std::uint32_t item = 1;  ///< bytes per item
  /// Number of entries in `sizes`. Tensors with more than kMaxDims dimensions have none and count
  /// as dense.
  std::uint8_t dims = 0;
  bool dense = true;
  const char* type = "";  ///< such as "float32"; never freed
  std::array<std::int64_t, kMaxDims> sizes{};
  std::array<std::int64_t, kMaxDims> strides{};  ///< in items
};

/// True if the regions have a byte in common. Exact, except that tensors with very many separate
/// runs count as overlapping if their ranges [low, high) overlap.
bool overlap(const Region& a, const Region& b);

/// True if `outer` certainly contains all bytes of `inner`.
inline bool covers(const Region& outer, const Region& inner) noexcept {
  return outer.dense && outer.low <= inner.low && inner.high <= outer.high;
}

/// "float32 [8, 64]" for example, or "4096 bytes" for memory that is not a tensor.
std::string shape_text(const Region& region);

}  // namespace anyaccel::backends::sim::checking
