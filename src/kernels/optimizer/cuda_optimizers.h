// The CUDA kernels of the optimizers, as plain functions: addresses are the device's, `stream` is a
// cudaStream_t. The answer is null, or what CUDA says. They return when the work is in the stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/optimizer/adam.h"
#include "kernels/optimizer/lion.h"

namespace anyaccel::ops {

/// `chunk_size` elements are one block's work, 256 to 2^31 - 1.
const char* cuda_adam(const AdamConstants& constants, const AdamArrays* tensors,
                      const std::int64_t* sizes, std::size_t count, std::int64_t chunk_size,
                      void* stream);
const char* cuda_lion(const LionConstants& constants, const OneStateArrays* tensors,
                      const std::int64_t* sizes, std::size_t count, std::int64_t chunk_size,
                      void* stream);

}  // namespace anyaccel::ops
