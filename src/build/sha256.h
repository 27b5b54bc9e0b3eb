// SHA-256 (FIPS 180-4), for keys and checksums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "anyaccel/export.h"

namespace anyaccel::build {

/// Incremental hash: hex() returns the digest of all bytes passed to add(). Not thread-safe.
class Sha256 {
 public:
  void add(std::string_view bytes);
  /// Returns 64 lower-case hexadecimal digits. Do not call add() or hex() afterwards.
  std::string hex();

 private:
  void take_block(const unsigned char* block);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};
  std::size_t used_ = 0;
  std::uint64_t length_ = 0;
};

/// Returns the digest of `bytes`.
ANYACCEL_API std::string sha256(std::string_view bytes);

}  // namespace anyaccel::build
