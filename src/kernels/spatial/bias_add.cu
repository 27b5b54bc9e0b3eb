// CUDA kernel for bias addition. The per-thread code is in bias_add_blocks.h.
#include "kernels/cuda/kernels.h"
#include "kernels/spatial/bias_add_blocks.h"

namespace anyaccel::ops {
namespace {

template <typename T, int n>
__global__ void bias_add(BiasAddArrays arrays) {
  const std::int64_t packs = arrays.size / n;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs;
       i += step)
    bias_add_pack<T, n>(arrays, i);
}

template <typename T>
void launch(const BiasAddArrays& arrays, cudaStream_t stream) {
  const int n = bias_pack(arrays, static_cast<int>(sizeof(T)));
  const std::int64_t blocks = (arrays.size / n + chunk_threads - 1) / chunk_threads;
  const auto grid = static_cast<unsigned>(blocks < 1 << 20 ? blocks : 1 << 20);
  if (n == 1)
    bias_add<T, 1><<<grid, chunk_threads, 0, stream>>>(arrays);
  else
    bias_add<T, static_cast<int>(16 / sizeof(T))><<<grid, chunk_threads, 0, stream>>>(arrays);
}

}  // namespace

const char* cuda_bias_add(const BiasAddArrays& arrays, Element element, bool is_double,
                          void* stream) {
  if (arrays.size == 0) return nullptr;
  auto* const queue = static_cast<cudaStream_t>(stream);
  if (is_double)
    launch<double>(arrays, queue);
  else if (element == Element::f32)
    launch<float>(arrays, queue);
  else if (element == Element::bf16)
    launch<__nv_bfloat16>(arrays, queue);
  else
    launch<__half>(arrays, queue);
  return launch_error();
}

}  // namespace anyaccel::ops
