// The CUDA kernels of LAMB, as a plain function: addresses are the device's, `stream` is a
// cudaStream_t.
#pragma once

#include "kernels/optimizer/lamb_blocks.h"

namespace anyaccel::ops {

/// Numbers of double that a step over `size` elements needs beside its tensors: the norms of each
/// block, and the rate.
inline std::int64_t cuda_lamb_scratch(std::int64_t size) {
  return 2 * ((size + lamb_block - 1) / lamb_block) + 1;
}

/// A step, and its coefficient at `coefficient`. The answer is null, or what CUDA says; it comes
/// when the work is in the stream.
const char* cuda_lamb(const LambConstants& constants, const LambBounds& bounds,
                      const LambArrays& arrays, std::int64_t size, void* scratch,
                      float* coefficient, void* stream);

}  // namespace anyaccel::ops
