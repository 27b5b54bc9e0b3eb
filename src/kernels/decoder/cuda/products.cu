// CUDA kernels for matrix products with few rows. The thread-block code is in products.h and
// experts.h.
#include "kernels/decoder/cuda/products.h"

#include "kernels/cuda/kernels.h"
#include "kernels/decoder/cuda/experts.h"

namespace anyaccel::ops {
namespace {

template <typename Weights, int rows, bool aligned>
__global__ void __launch_bounds__(product_lanes)
    products_kernel(const __grid_constant__ Products launch, std::int64_t blocks) {
  __shared__ float shared[product_shared];
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x)
    products_block<CudaTypes, Weights, rows, aligned>(launch, block, BlockThreads{}, shared);
}

template <typename Weights, bool aligned>
__global__ void __launch_bounds__(product_lanes)
    expert_kernel(const __grid_constant__ ExpertProducts launch) {
  __shared__ float shared[product_shared];
  expert_block<Weights, aligned>(launch, blockIdx.y, blockIdx.x, BlockThreads{}, shared);
}

}  // namespace

const char* cuda_products(const Products& launch, void* stream) {
  if (launch.inputs > max_inputs) return "the rows are too long for the matrix product kernel";
  auto* const queue = static_cast<cudaStream_t>(stream);
  if (launch.rows == 0) return nullptr;
  with_weights<CudaTypes>(launch.format, [&](auto weights) {
    using Weights = decltype(weights);
    const bool aligned =
        products_aligned(launch, Weights::align, Weights::row_bytes(launch.inputs));
    with_product_kind(launch.rows, aligned, [&](auto kind) {
      using Kind = decltype(kind);
      const std::int64_t blocks = product_blocks(launch, Kind::count);
      if (blocks > 0)
        products_kernel<Weights, Kind::count, Kind::aligned>
            <<<blocks_for(blocks), product_lanes, 0, queue>>>(launch, blocks);
    });
  });
  return launch_error();
}

const char* cuda_expert_products(const ExpertProducts& launch, void* stream) {
  if (launch.inputs > max_inputs) return "the rows are too long for the matrix product kernel";
  if (launch.pairs == 0 || launch.outputs == 0) return nullptr;
  const dim3 grid(static_cast<unsigned>((launch.outputs + expert_outputs - 1) / expert_outputs),
                  static_cast<unsigned>(launch.pairs));
  with_float_weights<CudaTypes>(launch.format, [&](auto weights) {
    using Weights = decltype(weights);
    const auto kernel = expert_aligned(launch, Weights::align, Weights::row_bytes(launch.inputs))
                            ? expert_kernel<Weights, true>
                            : expert_kernel<Weights, false>;
    kernel<<<grid, product_lanes, 0, static_cast<cudaStream_t>(stream)>>>(launch);
  });
  return launch_error();
}

}  // namespace anyaccel::ops
