// The system's page size: 4 KiB on x86-64, and 4, 16 or 64 KiB on ARM.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace anyaccel::backends::sim {

inline std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Returns the address of the page that contains an address.
inline std::uintptr_t page_of(std::uintptr_t address) noexcept {
  return address / page_size() * page_size();
}

/// Rounds a number of bytes, or an address, up to a multiple of the page size.
inline std::size_t round_up_to_pages(std::size_t bytes) noexcept {
  return (bytes + page_size() - 1) / page_size() * page_size();
}

}  // namespace anyaccel::backends::sim
