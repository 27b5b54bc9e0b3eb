// CUDA kernels of LAMB, as a plain function. Pointers are device pointers, and `stream` is a
// cudaStream_t.
#pragma once

#include "kernels/optimizer/lamb_blocks.h"

namespace anyaccel::ops {

/// Scratch memory of a step over `size` elements, in doubles: the norms of each block, and the
/// rate.
inline std::int64_t cuda_lamb_scratch(std::int64_t size) {
  return 2 * ((size + lamb_block - 1) / lamb_block) + 1;
}

/// Runs a step, and writes its coefficient to `coefficient`. Returns when the work is queued on the
/// stream: null, or the CUDA error message.
const char* cuda_lamb(const LambConstants& constants, const LambBounds& bounds,
                      const LambArrays& arrays, std::int64_t size, void* scratch,
                      float* coefficient, void* stream);

}  // namespace anyaccel::ops
