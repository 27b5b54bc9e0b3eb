// Functions that launch the CUDA kernels for the optimizers. Pointers are device pointers, and
// `stream` is a cudaStream_t. Each function returns as soon as its work is queued on the stream,
// with null on success and the CUDA error message on failure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/optimizer/adam.h"
#include "kernels/optimizer/lion.h"

namespace anyaccel::ops {

/// `chunk_size` is the number of elements per block, from 256 to 2^31 - 1.
const char* cuda_adam(const AdamConstants& constants, const AdamArrays* tensors,
                      const std::int64_t* sizes, std::size_t count, std::int64_t chunk_size,
                      void* stream);
const char* cuda_lion(const LionConstants& constants, const OneStateArrays* tensors,
                      const std::int64_t* sizes, std::size_t count, std::int64_t chunk_size,
                      void* stream);

}  // namespace anyaccel::ops
