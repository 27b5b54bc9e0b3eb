#include "backends/sim/memory_map.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "anyaccel/error.h"

namespace anyaccel::backends::sim {

namespace {

char* reserve(std::size_t bytes, int protection) {
  void* address =
      ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address != MAP_FAILED) return static_cast<char*>(address);
  throw Error(
      ErrorCode::unavailable, "sim",
      {.what = std::string("cannot reserve addresses for device memory: ") + std::strerror(errno),
       .got = std::to_string(bytes >> 20) + " MiB",
       .hint = "lower SIM_MEMORY or SIM_DEVICES, or raise the limit on address space (ulimit -v)"});
}

}  // namespace

void reserve_memory(int devices, std::size_t slice) {
  const auto bytes = slice * static_cast<std::size_t>(devices);
  char* base = reserve(bytes, PROT_NONE);
  char* alias = nullptr;
  try {
    alias = reserve(bytes, PROT_READ | PROT_WRITE);
  } catch (...) {
    ::munmap(base, bytes);
    throw;
  }
  // Exclude the range from core dumps.
  ::madvise(alias, bytes, MADV_DONTDUMP);
  memory_map = {.base = base, .slice = slice, .devices = devices, .delta = alias - base};
}

void release_pages(void* address, std::size_t bytes) noexcept {
  ::madvise(memory_map.alias(address), bytes, MADV_DONTNEED);
}

}  // namespace anyaccel::backends::sim
