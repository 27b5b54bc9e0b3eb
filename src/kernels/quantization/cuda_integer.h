// The CUDA kernels, as plain functions: addresses are the device's, `stream` is a cudaStream_t. The
// answer is null, or what CUDA says; they return when the work is in the stream.
#pragma once

#include "kernels/quantization/integer.h"

namespace anyaccel::ops {

const char* cuda_quantize(const QuantizeJob& job, std::int64_t groups, void* stream);
const char* cuda_reduce(const ReduceJob& job, std::int64_t groups, void* stream);
const char* cuda_dequantize(const DequantizeJob& job, std::int64_t size, void* stream);
const char* cuda_dequantize_half(const DequantizeHalfJob& job, std::int64_t size, void* stream);

}  // namespace anyaccel::ops
