#include "llm/support/large_pages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace anyaccel::llm {

namespace {

constexpr std::size_t page = std::size_t{2} << 20;
constexpr std::size_t block_size = 16 * page;
constexpr std::size_t line = 64;

std::size_t rounded(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// Maps a block that is aligned to a large page. Returns null on failure.
std::shared_ptr<void> make_block(std::size_t size) {
  const std::size_t all = size + page;
  void* const at = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const begin = reinterpret_cast<char*>(rounded(reinterpret_cast<std::uintptr_t>(at), page));
#ifdef MADV_HUGEPAGE
  ::madvise(begin, size, MADV_HUGEPAGE);  // best effort: on failure, the kernel uses small pages
#endif
  return {begin, [at, all](void*) { ::munmap(at, all); }};
}

}  // namespace

at::Tensor LargePages::empty(at::IntArrayRef shape, c10::ScalarType dtype) {
  std::size_t bytes = c10::elementSize(dtype);
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  const auto options = at::TensorOptions().dtype(dtype);
  if (used_ + bytes > size_) {
    size_ = std::max(block_size, rounded(bytes, page));
    used_ = 0;
    block_ = make_block(size_);
    if (!block_) size_ = 0;
  }
  if (!block_) return at::empty(shape, options);
  void* const place = static_cast<char*>(block_.get()) + used_;
  used_ = rounded(used_ + bytes, line);
  return at::from_blob(
      place, shape, [keep = block_](void*) {}, options);
}

}  // namespace anyaccel::llm
