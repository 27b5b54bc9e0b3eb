// The FNV-1a hash of Fowler, Noll and Vo. Do not use it where someone could benefit from a
// collision.
#pragma once

#include <cstdint>
#include <string_view>

namespace anyaccel {

constexpr std::uint64_t kFnv1aStart = 0xcbf29ce484222325ULL;

/// Extends a hash by one value, which is a byte in the published algorithm.
constexpr std::uint64_t fnv1a(std::uint64_t hash, std::uint64_t value) noexcept {
  return (hash ^ value) * 0x100000001b3ULL;
}

/// Extends a hash by all bytes of a text.
constexpr std::uint64_t fnv1a(std::uint64_t hash, std::string_view bytes) noexcept {
  for (const char byte : bytes) hash = fnv1a(hash, static_cast<unsigned char>(byte));
  return hash;
}

}  // namespace anyaccel
