#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <string>

#include "io/pinned/pool.h"

namespace anyaccel::ops::pin {

namespace {

constexpr std::size_t kLargePage = 2 << 20;
// MPOL_PREFERRED from linux/mempolicy.h: memory on another node is better than none.
constexpr int kPreferred = 1;

}  // namespace

void* System::map(std::size_t bytes) noexcept {
  const bool large = bytes >= kLargePage;
  const auto mapped = large ? bytes + kLargePage : bytes;
  void* address =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  if (!large) return address;
  // With huge pages, a disk request of one megabyte has one segment instead of 256, and locking is
  // cheaper.
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const auto before = (kLargePage - start % kLargePage) % kLargePage;
  if (before > 0) ::munmap(address, before);
  auto* const aligned = static_cast<char*>(address) + before;
  if (const auto after = kLargePage - before; after > 0) ::munmap(aligned + bytes, after);
  ::madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

void System::unmap(void* address, std::size_t bytes) noexcept { ::munmap(address, bytes); }

int System::lock(void* address, std::size_t bytes) noexcept {
  return ::mlock(address, bytes) == 0 ? 0 : errno;
}

int System::bind(void* address, std::size_t bytes, int node) noexcept {
  constexpr unsigned kBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 1024 / kBits> mask{};
  const auto index = static_cast<unsigned>(node);
  if (index >= mask.size() * kBits) return EINVAL;
  mask[index / kBits] = 1UL << (index % kBits);
  return ::syscall(__NR_mbind, address, bytes, kPreferred, mask.data(), mask.size() * kBits, 0) == 0
             ? 0
             : errno;
}

int System::node_count() const noexcept {
  // For example "0", "0-3" or "0,2-3". There are several nodes if the list contains "-" or ",".
  std::ifstream file("/sys/devices/system/node/has_memory");
  std::string list;
  if (!(file >> list)) return 1;
  return list.find_first_of("-,") == std::string::npos ? 1 : 2;
}

int System::current_node() const noexcept {
  unsigned node = 0;
  return ::syscall(__NR_getcpu, nullptr, &node, nullptr) == 0 ? static_cast<int>(node) : 0;
}

std::uint64_t System::lock_limit() const noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace anyaccel::ops::pin
