// CUDA kernels for Evoformer attention. The thread-block code is in evoformer_blocks.h.
#include "kernels/attention/evoformer_blocks.h"
#include "kernels/cuda/kernels.h"

namespace anyaccel::ops {
namespace {

enum class Step { forward, prepare, queries, keys };

template <typename T, typename Real, Step step>
__global__ void __launch_bounds__(evoformer_lanes)
    attend(EvoformerLaunch<Real> launch, std::int64_t tasks, std::int64_t tiles) {
  extern __shared__ double memory[];
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const BlockThreads each;
    const EvoformerBlock<T, Real, BlockThreads> block(launch, each, task, tiles,
                                                      reinterpret_cast<Real*>(memory));
    if constexpr (step == Step::forward)
      block.forward();
    else if constexpr (step == Step::prepare)
      block.prepare();
    else if constexpr (step == Step::queries)
      block.backward_queries();
    else
      block.backward_keys();
    __syncthreads();
  }
}

template <typename T, typename Real, Step step>
const char* start(const EvoformerLaunch<Real>& launch, std::int64_t rows, cudaStream_t stream) {
  const std::int64_t tiles = evoformer_tiles(rows), tasks = launch.all_heads() * tiles;
  if (tasks == 0) return nullptr;
  const auto bytes = static_cast<std::size_t>(evoformer_shared(launch.dim)) * sizeof(Real);
  const auto kernel = attend<T, Real, step>;
  if (const char* problem = allow_shared(kernel, bytes)) return problem;
  const auto grid = static_cast<unsigned>(tasks < 1 << 30 ? tasks : 1 << 30);
  kernel<<<grid, evoformer_lanes, bytes, stream>>>(launch, tasks, tiles);
  return launch_error();
}

template <typename T, typename Real>
const char* forward(const EvoformerLaunch<Real>& launch, void* stream) {
  return start<T, Real, Step::forward>(launch, launch.queries, static_cast<cudaStream_t>(stream));
}

template <typename T, typename Real>
const char* backward(const EvoformerLaunch<Real>& launch, void* stream) {
  auto* const queue = static_cast<cudaStream_t>(stream);
  if (const char* problem = start<T, Real, Step::prepare>(launch, launch.queries, queue))
    return problem;
  if (const char* problem = start<T, Real, Step::queries>(launch, launch.queries, queue))
    return problem;
  return start<T, Real, Step::keys>(launch, launch.keys, queue);
}

}  // namespace

const char* cuda_evoformer_forward(const EvoformerLaunch<float>& launch, Element element,
                                   void* stream) {
  switch (element) {
    case Element::f32: return forward<float>(launch, stream);
    case Element::bf16: return forward<__nv_bfloat16>(launch, stream);
    default: return forward<__half>(launch, stream);
  }
}

const char* cuda_evoformer_forward(const EvoformerLaunch<double>& launch, void* stream) {
  return forward<double>(launch, stream);
}

const char* cuda_evoformer_backward(const EvoformerLaunch<float>& launch, Element element,
                                    void* stream) {
  switch (element) {
    case Element::f32: return backward<float>(launch, stream);
    case Element::bf16: return backward<__nv_bfloat16>(launch, stream);
    default: return backward<__half>(launch, stream);
  }
}

const char* cuda_evoformer_backward(const EvoformerLaunch<double>& launch, void* stream) {
  return backward<double>(launch, stream);
}

}  // namespace anyaccel::ops
