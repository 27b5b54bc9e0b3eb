// CUDA kernels for integer quantization. Quantization uses one block per group, and dequantization
// one thread per element. The thread-block code is in integer_blocks.h.
#include "kernels/quantization/cuda_integer.h"

#include "kernels/cuda/kernels.h"
#include "kernels/quantization/integer_blocks.h"

namespace anyaccel::ops {
namespace {

template <typename T>
__global__ void quantize_kernel(QuantizeJob job, std::int64_t groups) {
  __shared__ GroupRange lanes[quantizer_lanes];
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x)
    quantize_group_block<T>(job, group, lanes, BlockThreads{});
}

__global__ void reduce_kernel(ReduceJob job, std::int64_t groups) {
  __shared__ GroupRange lanes[quantizer_lanes];
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x)
    reduce_group_block(job, group, lanes, BlockThreads{});
}

template <typename T>
__global__ void dequantize_kernel(DequantizeJob job, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step)
    dequantize_element<T>(job, i);
}

__global__ void dequantize_half_kernel(DequantizeHalfJob job, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step)
    dequantize_half_element<__half>(job, i);
}

}  // namespace

const char* cuda_quantize(const QuantizeJob& job, std::int64_t groups, void* stream) {
  if (groups == 0) return nullptr;
  with_cuda_element(job.element, [&](auto type) {
    quantize_kernel<decltype(type)>
        <<<blocks_for(groups), quantizer_lanes, 0, static_cast<cudaStream_t>(stream)>>>(job,
                                                                                        groups);
  });
  return launch_error();
}

const char* cuda_reduce(const ReduceJob& job, std::int64_t groups, void* stream) {
  if (groups == 0) return nullptr;
  reduce_kernel<<<blocks_for(groups), quantizer_lanes, 0, static_cast<cudaStream_t>(stream)>>>(
      job, groups);
  return launch_error();
}

const char* cuda_dequantize(const DequantizeJob& job, std::int64_t size, void* stream) {
  if (size == 0) return nullptr;
  with_cuda_element(job.element, [&](auto type) {
    dequantize_kernel<decltype(type)>
        <<<blocks_of_elements(size), chunk_threads, 0, static_cast<cudaStream_t>(stream)>>>(job,
                                                                                            size);
  });
  return launch_error();
}

const char* cuda_dequantize_half(const DequantizeHalfJob& job, std::int64_t size, void* stream) {
  if (size == 0) return nullptr;
  dequantize_half_kernel<<<blocks_of_elements(size), chunk_threads, 0,
                           static_cast<cudaStream_t>(stream)>>>(job, size);
  return launch_error();
}

}  // namespace anyaccel::ops
