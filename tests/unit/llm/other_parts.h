// Detects reads of parts of a mapped file that belong only to other ranks. The pages of these parts
// are made inaccessible, so that a read crashes the process.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "llm/parallel/plan.h"

namespace anyaccel::llm {

/// Revokes access to all pages that lie within a mapped tensor and contain no element of `own`, a
/// list of slices along dimension `dim`. Returns the number of these pages.
inline std::size_t forbid_other_parts(const at::Tensor& whole, std::size_t dim,
                                      const std::vector<Slice>& own) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(whole.const_data_ptr());
  const std::uintptr_t end = first + whole.nbytes(), item = whole.element_size();
  const auto columns = static_cast<std::uintptr_t>(whole.dim() > 1 ? whole.size(1) : 1);
  const auto is_own = [&](std::uintptr_t address) {
    const std::uintptr_t place = (address - first) / item;
    const auto at = static_cast<std::int64_t>(dim == 0 ? place / columns : place % columns);
    return std::any_of(own.begin(), own.end(), [&](const Slice& part) {
      return at >= part.begin && at < part.begin + part.count;
    });
  };
  std::size_t pages = 0;
  for (std::uintptr_t page = (first + page_bytes - 1) / page_bytes * page_bytes;
       page + page_bytes <= end; page += page_bytes) {
    bool other = true;
    for (std::uintptr_t address = page; other && address < page + page_bytes; address += item)
      other = !is_own(address);
    if (!other) continue;
    EXPECT_EQ(::mprotect(reinterpret_cast<void*>(page), page_bytes, PROT_NONE), 0);
    ++pages;
  }
  return pages;
}

}  // namespace anyaccel::llm
