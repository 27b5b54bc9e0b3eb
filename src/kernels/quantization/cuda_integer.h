// CUDA kernels, as plain functions. Pointers are device pointers, and `stream` is a cudaStream_t.
// They return when the work is queued on the stream: null, or the CUDA error message.
#pragma once

#include "kernels/quantization/integer.h"

namespace anyaccel::ops {

const char* cuda_quantize(const QuantizeJob& job, std::int64_t groups, void* stream);
const char* cuda_reduce(const ReduceJob& job, std::int64_t groups, void* stream);
const char* cuda_dequantize(const DequantizeJob& job, std::int64_t size, void* stream);
const char* cuda_dequantize_half(const DequantizeHalfJob& job, std::int64_t size, void* stream);

}  // namespace anyaccel::ops
