// Tests features that depend on the CUDA compute capability.
#include "backends/cuda/capability.h"

#include <gtest/gtest.h>

namespace anyaccel::backends::cuda {
namespace {

// Fails if the compute capability that a feature requires changes: fp16 from 7.0 (6.x only if
// allowed), bf16 and Triton from 8.0, fp8 from 8.9.
TEST(Capability, Gates) {
  EXPECT_FALSE(fast_fp16({5, 3}, true));
  EXPECT_FALSE(fast_fp16({6, 1}, false));
  EXPECT_TRUE(fast_fp16({6, 1}, true));
  EXPECT_TRUE(fast_fp16({7, 0}, false));
  EXPECT_FALSE(fast_bf16({7, 5}));
  EXPECT_TRUE(fast_bf16({8, 0}));
  EXPECT_FALSE(triton({7, 5}));
  EXPECT_TRUE(triton({8, 0}));
  EXPECT_FALSE(fp8({8, 6}));
  EXPECT_TRUE(fp8({8, 9}));
  EXPECT_TRUE(fp8({9, 0}));
  EXPECT_FALSE(fp8({-1, -1}));
}

// Fails if Triton's grouped matrix product is preferred on GPUs for which torch has a fused kernel,
// or on which Triton cannot run.
TEST(Capability, GroupedProduct) {
  EXPECT_FALSE(prefers_triton_grouped_mm({6, 1}));
  EXPECT_TRUE(prefers_triton_grouped_mm({7, 0}));
  EXPECT_TRUE(prefers_triton_grouped_mm({8, 9}));
  EXPECT_FALSE(prefers_triton_grouped_mm({9, 0}));
  EXPECT_FALSE(prefers_triton_grouped_mm({10, 0}));
}

}  // namespace
}  // namespace anyaccel::backends::cuda
