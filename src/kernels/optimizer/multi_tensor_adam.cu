// CUDA kernels for FusedAdam. One launch processes many tensors. The thread-block code is in
// multi_tensor.h.
#include "kernels/cuda/kernels.h"
#include "kernels/optimizer/cuda_optimizers.h"

namespace anyaccel::ops {
namespace {

static_assert(sizeof(Chunks<4>) + sizeof(AdamConstants) + sizeof(std::int64_t) <= 4096,
              "a kernel's arguments");

template <typename P, typename G, typename S>
__global__ void adam_chunks(const __grid_constant__ Chunks<4> chunks, AdamConstants constants,
                            std::int64_t chunk_size) {
  adam_block<P, G, S>(chunks, constants, chunk_size, blockIdx.x, threadIdx.x, blockDim.x);
}

}  // namespace

const char* cuda_adam(const AdamConstants& constants, const AdamArrays* tensors,
                      const std::int64_t* sizes, std::size_t count, std::int64_t chunk_size,
                      void* stream) {
  const auto address = [&](std::size_t i, int array) {
    const AdamArrays& t = tensors[i];
    void* const all[] = {t.params, const_cast<void*>(t.grads), t.exp_avg, t.exp_avg_sq};
    return all[array];
  };
  const auto same = [&](std::size_t i, std::size_t j) {
    const AdamArrays &a = tensors[i], &b = tensors[j];
    return a.param == b.param && a.grad == b.grad && a.state == b.state;
  };
  const auto start = [&](const Chunks<4>& chunks, int blocks, std::size_t first) {
    with_cuda_elements(tensors[first].param, tensors[first].grad, tensors[first].state,
                       [&](auto p, auto g, auto s) {
                         adam_chunks<decltype(p), decltype(g), decltype(s)>
                             <<<blocks, chunk_threads, 0, static_cast<cudaStream_t>(stream)>>>(
                                 chunks, constants, chunk_size);
                       });
    return launch_error();
  };
  return launch_chunks<4>(sizes, count, chunk_size, address, same, start);
}

}  // namespace anyaccel::ops
