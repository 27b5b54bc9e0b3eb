// CUDA kernels that quantize and dequantize matrices. Quantization uses one warp per group, and
// dequantization one thread per element.
#include "kernels/decoder/cuda/integers.h"

#include "kernels/cuda/kernels.h"

namespace anyaccel::ops {
namespace {

__global__ void __launch_bounds__(quantize_lanes)
    quantize_matrix_kernel(const __grid_constant__ QuantizeMatrix launch, std::int64_t groups) {
  __shared__ float shared[quantize_lanes];
  const BlockThreads each;
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x)
    QuantizeGroup<CudaTypes, BlockThreads>(launch, group, each, shared).run();
}

__global__ void widen_matrix_kernel(const __grid_constant__ WidenMatrix launch, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step)
    widen_element<CudaTypes>(launch, i);
}

}  // namespace

const char* cuda_quantize_matrix(const QuantizeMatrix& launch, void* stream) {
  const std::int64_t groups = launch.outputs * (launch.inputs / launch.group);
  if (groups == 0) return nullptr;
  quantize_matrix_kernel<<<blocks_for(groups), quantize_lanes, 0,
                           static_cast<cudaStream_t>(stream)>>>(launch, groups);
  return launch_error();
}

const char* cuda_widen_matrix(const WidenMatrix& launch, void* stream) {
  const std::int64_t size = launch.count * launch.matrix.inputs;
  if (size == 0) return nullptr;
  widen_matrix_kernel<<<blocks_of_elements(size), chunk_threads, 0,
                        static_cast<cudaStream_t>(stream)>>>(launch, size);
  return launch_error();
}

}  // namespace anyaccel::ops
