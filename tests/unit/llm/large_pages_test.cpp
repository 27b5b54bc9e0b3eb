#include "llm/support/large_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace anyaccel::llm {
namespace {

// Fails if tensors overlap, are not aligned, or lose their memory when the LargePages object that
// allocated them is destroyed.
TEST(LargePages, TensorsDoNotOverlap) {
  std::vector<at::Tensor> tensors;
  {
    LargePages memory;
    for (const std::int64_t rows : {1, 700, 3, 20000, 5, 0})
      tensors.push_back(memory.empty({rows, 500}, c10::kFloat));
    tensors.push_back(memory.empty({3, 3}, c10::kBFloat16));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(tensors[i].is_contiguous());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensors[i].data_ptr()) % 64, 0U);
    if (tensors[i].nbytes() > 0)
      std::memset(tensors[i].data_ptr(), static_cast<int>(i), tensors[i].nbytes());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto* const bytes = static_cast<const unsigned char*>(tensors[i].data_ptr());
    for (std::size_t k = 0; k < tensors[i].nbytes(); k += 61) ASSERT_EQ(bytes[k], i);
  }
}

}  // namespace
}  // namespace anyaccel::llm
