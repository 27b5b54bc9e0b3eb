// CUDA kernels for LAMB. They compute the norms of each block, then the rate from all norms, then
// the parameters. The thread-block code is in lamb_blocks.h.
#include "kernels/cuda/kernels.h"
#include "kernels/optimizer/cuda_lamb.h"

namespace anyaccel::ops {
namespace {

template <typename P, typename G, typename S>
__global__ void lamb_first(LambConstants constants, LambArrays arrays, std::int64_t size,
                           LambNorms* parts) {
  // This is an array of doubles, because LambNorms has member initializers, which variables in
  // shared memory must not have.
  __shared__ double memory[2 * lamb_lanes];
  auto* const lanes = reinterpret_cast<LambNorms*>(memory);
  lamb_moments_block<P, G, S>(constants, arrays, size, blockIdx.x, lanes, BlockThreads{});
  if (threadIdx.x == 0) parts[blockIdx.x] = lanes[0];
}

__global__ void lamb_rates(LambBounds bounds, const LambNorms* parts, std::int64_t count,
                           float* rate, float* coefficient) {
  __shared__ double memory[2 * lamb_lanes];
  auto* const lanes = reinterpret_cast<LambNorms*>(memory);
  lamb_total(parts, count, lanes, BlockThreads{});
  if (threadIdx.x != 0) return;
  const LambRate found = lamb_rate(lanes[0], bounds);
  *rate = found.rate;
  *coefficient = found.coefficient;
}

template <typename P, typename S, typename C>
__global__ void lamb_second(LambConstants constants, const float* rate, LambArrays arrays,
                            std::int64_t size) {
  lamb_apply_block<P, S, C>(constants, *rate, arrays, static_cast<C*>(arrays.copy), size,
                            blockIdx.x, BlockThreads{});
}

/// Like with_cuda_elements(), but also supports 16-bit gradients of float parameters.
template <typename Call>
void with_lamb_elements(const LambArrays& arrays, const Call& call) {
  if (arrays.param != Element::f32)
    return with_cuda_elements(arrays.param, arrays.grad, arrays.state, call);
  if (arrays.grad == Element::f32) return call(float(), float(), float());
  if (arrays.grad == Element::bf16) return call(float(), __nv_bfloat16(), float());
  call(float(), __half(), float());
}

template <typename Call>
void with_copy(const LambArrays& arrays, const Call& call) {
  if (!arrays.copy || arrays.copied == Element::f32) return call(float());
  if (arrays.copied == Element::bf16) return call(__nv_bfloat16());
  call(__half());
}

}  // namespace

const char* cuda_lamb(const LambConstants& constants, const LambBounds& bounds,
                      const LambArrays& arrays, std::int64_t size, void* scratch,
                      float* coefficient, void* stream) {
  const std::int64_t blocks = (size + lamb_block - 1) / lamb_block;
  // Each block of the grid processes lamb_block elements. This cannot overflow: the elements of
  // 2^31 - 1 blocks would not fit in the memory of any device.
  const auto grid = static_cast<unsigned>(blocks);
  auto* const parts = static_cast<LambNorms*>(scratch);
  auto* const rate = reinterpret_cast<float*>(parts + blocks);
  auto* const queue = static_cast<cudaStream_t>(stream);
  if (blocks > 0)
    with_lamb_elements(arrays, [&](auto p, auto g, auto s) {
      lamb_first<decltype(p), decltype(g), decltype(s)>
          <<<grid, lamb_lanes, 0, queue>>>(constants, arrays, size, parts);
    });
  if (const char* problem = launch_error()) return problem;
  lamb_rates<<<1, lamb_lanes, 0, queue>>>(bounds, parts, blocks, rate, coefficient);
  if (const char* problem = launch_error()) return problem;
  if (blocks > 0)
    with_lamb_elements(arrays, [&](auto p, auto, auto s) {
      with_copy(arrays, [&](auto c) {
        lamb_second<decltype(p), decltype(s), decltype(c)>
            <<<grid, lamb_lanes, 0, queue>>>(constants, rate, arrays, size);
      });
    });
  return launch_error();
}

}  // namespace anyaccel::ops
