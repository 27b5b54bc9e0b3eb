// Function that launches the CUDA kernels for LAMB. Pointers are device pointers, and `stream` is a
// cudaStream_t.
#pragma once

#include "kernels/optimizer/lamb_blocks.h"

namespace anyaccel::ops {

/// Size of the scratch memory, in doubles, for a step on `size` elements. It holds the norms of
/// each block and the rate.
inline std::int64_t cuda_lamb_scratch(std::int64_t size) {
  return 2 * ((size + lamb_block - 1) / lamb_block) + 1;
}

/// Runs a step and writes its trust ratio to `coefficient`. Returns as soon as the work is queued
/// on the stream, with null on success and the CUDA error message on failure.
const char* cuda_lamb(const LambConstants& constants, const LambBounds& bounds,
                      const LambArrays& arrays, std::int64_t size, void* scratch,
                      float* coefficient, void* stream);

}  // namespace anyaccel::ops
