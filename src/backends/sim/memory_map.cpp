#include "backends/sim/memory_map.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "anyaccel/error.h"

#include <fcntl.h>

namespace anyaccel::backends::sim {

namespace {

constexpr int kShared = MAP_SHARED | MAP_NORESERVE;
constexpr int kWithoutFile = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

[[noreturn]] void fail(std::size_t bytes) {
  throw Error(
      ErrorCode::unavailable, "sim",
      {.what = std::string("cannot reserve addresses for device memory: ") + std::strerror(errno),
       .got = std::to_string(bytes >> 20) + " MiB",
       .hint = "lower SIM_MEMORY or SIM_DEVICES, or raise the limits on address space (ulimit -v) "
               "and file size (ulimit -f)"});
}

char* reserve(std::size_t bytes, int protection, int flags, int file) {
  void* address = ::mmap(nullptr, bytes, protection, flags, file, 0);
  if (address == MAP_FAILED) fail(bytes);
  return static_cast<char*>(address);
}

std::size_t all_bytes() { return memory_map.slice * static_cast<std::size_t>(memory_map.devices); }

/// Returns -1 if the system does not provide the file.
int new_file(std::size_t bytes) {
  const int file = ::memfd_create("anyaccel-device", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes + kIpcBytes)) == 0) return file;
  const int error = errno;
  ::close(file);
  errno = error;
  return -1;
}

/// Calls only functions that are safe in a forked child.
void separate_child() {
  const auto bytes = all_bytes();
  const int inherited = std::exchange(memory_map.file, new_file(bytes));
  ::mmap(memory_map.alias(memory_map.base), bytes, PROT_READ | PROT_WRITE,
         MAP_FIXED | (memory_map.file >= 0 ? kShared : kWithoutFile), memory_map.file, 0);
  ::madvise(memory_map.alias(memory_map.base), bytes, MADV_DONTDUMP);
  ::close(inherited);
}

}  // namespace

void reserve_memory(int devices, std::size_t slice) {
  const auto bytes = slice * static_cast<std::size_t>(devices);
  const int file = new_file(bytes);
  if (file < 0) fail(bytes);
  char* base = nullptr;
  char* alias = nullptr;
  try {
    base = reserve(bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    alias = reserve(bytes, PROT_READ | PROT_WRITE, kShared, file);
  } catch (...) {
    if (base != nullptr) ::munmap(base, bytes);
    ::close(file);
    throw;
  }
  // Exclude the range from core dumps.
  ::madvise(alias, bytes, MADV_DONTDUMP);
  memory_map = {
      .base = base, .slice = slice, .devices = devices, .delta = alias - base, .file = file};
  ::pthread_atfork(nullptr, nullptr, &separate_child);
}

void release_pages(void* address, std::size_t bytes) noexcept {
  if (memory_map.file < 0) {
    ::madvise(memory_map.alias(address), bytes, MADV_DONTNEED);
    return;
  }
  ::fallocate(memory_map.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<char*>(address) - memory_map.base, static_cast<off_t>(bytes));
}

void map_foreign(void* address, std::size_t bytes, int file, std::size_t offset) {
  void* target = memory_map.alias(address);
  if (::mmap(target, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, file,
             static_cast<off_t>(offset)) == MAP_FAILED)
    throw Error(ErrorCode::unavailable, "sim",
                {.what = std::string("cannot map device memory of another process: ") +
                         std::strerror(errno)});
  ::madvise(target, bytes, MADV_DONTDUMP);
}

void unmap_foreign(void* address, std::size_t bytes) noexcept {
  const bool in_file = memory_map.file >= 0;  // a forked child may not have a file
  ::mmap(memory_map.alias(address), bytes, PROT_READ | PROT_WRITE,
         MAP_FIXED | (in_file ? kShared : kWithoutFile), memory_map.file,
         in_file ? static_cast<char*>(address) - memory_map.base : 0);
}

}  // namespace anyaccel::backends::sim
