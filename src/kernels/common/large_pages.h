// Huge pages for large result buffers. Newly allocated memory is not mapped yet, and faulting it in
// page by page takes several times as long as writing the results.
#pragma once

#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace anyaccel::ops {

/// Requests transparent huge pages for the aligned 2 MiB pages within [memory, memory + bytes).
/// Best effort; the contents of the memory do not change.
inline void wish_large_pages(void* memory, std::int64_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = 2 << 20;
  constexpr std::int64_t least = 8 * page;
  if (bytes < least) return;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
  const auto end =
      (reinterpret_cast<std::uintptr_t>(memory) + static_cast<std::uintptr_t>(bytes)) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace anyaccel::ops
