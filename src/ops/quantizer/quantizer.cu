// Quantizing on CUDA: a block for each group, a thread for each element on the way back. What a block does stands in blocks.h.
#include "ops/quantizer/cuda_quantizer.h"

#include "ops/quantizer/blocks.h"
#include "ops/support/cuda/kernels.h"

namespace anyaccel::ops {
namespace {

/// All threads of the block, and a barrier. The host has a copy only because what calls it is compiled for both.
struct BlockThreads {
  template <typename Function>
  __host__ __device__ void operator()(const Function& function) const {
#if defined(__CUDA_ARCH__)
    function(static_cast<int>(threadIdx.x));
    __syncthreads();
#endif
  }
};

/// Groups beyond what a grid holds are the same blocks' next ones.
constexpr std::int64_t most_blocks = 1 << 20;

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
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    dequantize_element<T>(job, i);
}

__global__ void dequantize_half_kernel(DequantizeHalfJob job, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
    dequantize_half_element<__half>(job, i);
}

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>(count < most_blocks ? count : most_blocks); }
unsigned blocks_of_elements(std::int64_t size) { return blocks_for((size + chunk_threads - 1) / chunk_threads); }

template <typename Call>
void with_cuda_element(Element element, const Call& call) {
  if (element == Element::f32) return call(float());
  if (element == Element::bf16) return call(__nv_bfloat16());
  call(__half());
}

}  // namespace

const char* cuda_quantize(const QuantizeJob& job, std::int64_t groups, void* stream) {
  if (groups == 0) return nullptr;
  with_cuda_element(job.element, [&](auto type) {
    quantize_kernel<decltype(type)>
        <<<blocks_for(groups), quantizer_lanes, 0, static_cast<cudaStream_t>(stream)>>>(job, groups);
  });
  return launch_error();
}

const char* cuda_reduce(const ReduceJob& job, std::int64_t groups, void* stream) {
  if (groups == 0) return nullptr;
  reduce_kernel<<<blocks_for(groups), quantizer_lanes, 0, static_cast<cudaStream_t>(stream)>>>(job, groups);
  return launch_error();
}

const char* cuda_dequantize(const DequantizeJob& job, std::int64_t size, void* stream) {
  if (size == 0) return nullptr;
  with_cuda_element(job.element, [&](auto type) {
    dequantize_kernel<decltype(type)>
        <<<blocks_of_elements(size), chunk_threads, 0, static_cast<cudaStream_t>(stream)>>>(job, size);
  });
  return launch_error();
}

const char* cuda_dequantize_half(const DequantizeHalfJob& job, std::int64_t size, void* stream) {
  if (size == 0) return nullptr;
  dequantize_half_kernel<<<blocks_of_elements(size), chunk_threads, 0, static_cast<cudaStream_t>(stream)>>>(job, size);
  return launch_error();
}

}  // namespace anyaccel::ops
