// CUDA kernels for FusedLion. One launch processes many tensors. The thread-block code is in
// multi_tensor.h.
#include "kernels/cuda/kernels.h"
#include "kernels/optimizer/cuda_optimizers.h"

namespace anyaccel::ops {
namespace {

static_assert(sizeof(Chunks<3>) + sizeof(LionConstants) + sizeof(std::int64_t) <= 4096,
              "a kernel's arguments");

template <typename P, typename G, typename S>
__global__ void lion_chunks(const __grid_constant__ Chunks<3> chunks, LionConstants constants,
                            std::int64_t chunk_size) {
  lion_block<P, G, S>(chunks, constants, chunk_size, blockIdx.x, threadIdx.x, blockDim.x);
}

}  // namespace

const char* cuda_lion(const LionConstants& constants, const OneStateArrays* tensors,
                      const std::int64_t* sizes, std::size_t count, std::int64_t chunk_size,
                      void* stream) {
  const auto address = [&](std::size_t i, int array) {
    const OneStateArrays& t = tensors[i];
    void* const all[] = {t.params, const_cast<void*>(t.grads), t.states};
    return all[array];
  };
  const auto same = [&](std::size_t i, std::size_t j) {
    const OneStateArrays &a = tensors[i], &b = tensors[j];
    return a.param == b.param && a.grad == b.grad && a.state == b.state;
  };
  const auto start = [&](const Chunks<3>& chunks, int blocks, std::size_t first) {
    with_cuda_elements(tensors[first].param, tensors[first].grad, tensors[first].state,
                       [&](auto p, auto g, auto s) {
                         lion_chunks<decltype(p), decltype(g), decltype(s)>
                             <<<blocks, chunk_threads, 0, static_cast<cudaStream_t>(stream)>>>(
                                 chunks, constants, chunk_size);
                       });
    return launch_error();
  };
  return launch_chunks<3>(sizes, count, chunk_size, address, same, start);
}

}  // namespace anyaccel::ops
