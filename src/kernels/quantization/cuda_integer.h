// Functions that launch the CUDA kernels for integer quantization. Pointers are device pointers,
// and `stream` is a cudaStream_t. Each function returns as soon as its work is queued on the
// stream, with null on success and the CUDA error message on failure.
#pragma once

#include "kernels/quantization/integer.h"

namespace anyaccel::ops {

const char* cuda_quantize(const QuantizeJob& job, std::int64_t groups, void* stream);
const char* cuda_reduce(const ReduceJob& job, std::int64_t groups, void* stream);
const char* cuda_dequantize(const DequantizeJob& job, std::int64_t size, void* stream);
const char* cuda_dequantize_half(const DequantizeHalfJob& job, std::int64_t size, void* stream);

}  // namespace anyaccel::ops
