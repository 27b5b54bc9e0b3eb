// CUDA kernels that compute attention for a few rows over their KV caches. The thread-block code is
// in attention.h.
#include "kernels/decoder/cuda/attention.h"

#include "kernels/cuda/kernels.h"

namespace anyaccel::ops {
namespace {

template <typename T, int queries>
__global__ void __launch_bounds__(attend_lanes)
    attend_kernel(const __grid_constant__ AttendCache launch) {
  extern __shared__ uint4 memory[];
  const BlockThreads each;
  AttendBlock<T, queries, BlockThreads>(launch, blockIdx.y, blockIdx.z, each,
                                        reinterpret_cast<char*>(memory))
      .run(blockIdx.x, gridDim.x);
}

__global__ void __launch_bounds__(attend_lanes)
    combine_kernel(const __grid_constant__ AttendCache launch, std::int64_t chunks) {
  combine_block(launch, blockIdx.y, blockIdx.x, chunks, BlockThreads{});
}

}  // namespace

const char* cuda_attend_cache(const AttendCache& launch, void* stream) {
  if (launch.rows == 0) return nullptr;
  auto* const queue = static_cast<cudaStream_t>(stream);
  std::int64_t chunks = 0;
  with_cuda_element(launch.type, [&](auto type) {
    with_queries(launch, [&](auto queries) {
      using T = decltype(type);
      constexpr int count = decltype(queries)::count;
      const AttendGrid grid = attend_grid(launch, count);
      const AttendShared shared(static_cast<int>(launch.dim), sizeof(T), count);
      chunks = grid.chunks;
      attend_kernel<T, count>
          <<<dim3(static_cast<unsigned>(grid.chunks), static_cast<unsigned>(grid.groups),
                  static_cast<unsigned>(grid.rows)),
             attend_lanes, static_cast<std::size_t>(shared.bytes), queue>>>(launch);
    });
  });
  const char* const problem = launch_error();
  if (problem || chunks < 2) return problem;
  combine_kernel<<<dim3(static_cast<unsigned>(launch.heads), static_cast<unsigned>(launch.rows)),
                   attend_lanes, 0, queue>>>(launch, chunks);
  return launch_error();
}

}  // namespace anyaccel::ops
