// CUDA kernels for norms, rotary embeddings, gates and expert selection. The thread-block code is
// in rows.h and experts.h.
#include "kernels/decoder/cuda/rows.h"

#include "kernels/cuda/kernels.h"
#include "kernels/decoder/cuda/experts.h"

namespace anyaccel::ops {
namespace {

constexpr int choose_lanes = warp_lanes;

__global__ void __launch_bounds__(norm_lanes) norm_kernel(const __grid_constant__ NormRows launch) {
  __shared__ float shared[norm_lanes / warp_lanes];
  norm_row_block<CudaTypes>(launch, blockIdx.x, BlockThreads{}, shared);
}

__global__ void __launch_bounds__(head_lanes)
    position_kernel(const __grid_constant__ PositionHeads launch) {
  extern __shared__ float values[];
  position_head_block<CudaTypes>(launch, blockIdx.y, blockIdx.x, BlockThreads{}, values);
}

__global__ void __launch_bounds__(gate_lanes) gate_kernel(const __grid_constant__ GateRows launch) {
  gate_block<CudaTypes>(launch, blockIdx.y, blockIdx.x, BlockThreads{});
}

__global__ void __launch_bounds__(choose_lanes) choose_kernel(ChooseExperts launch) {
  if (threadIdx.x == 0) choose_row(launch, blockIdx.x);
}

__global__ void __launch_bounds__(gate_lanes) mix_kernel(MixExperts launch) {
  mix_block(launch, blockIdx.y, blockIdx.x, gate_lanes, BlockThreads{});
}

unsigned pieces_of(std::int64_t columns) {
  return static_cast<unsigned>((columns + gate_lanes - 1) / gate_lanes);
}

cudaStream_t queue(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

const char* cuda_norm_rows(const NormRows& launch, void* stream) {
  if (launch.rows == 0) return nullptr;
  norm_kernel<<<static_cast<unsigned>(launch.rows), norm_lanes, 0, queue(stream)>>>(launch);
  return launch_error();
}

const char* cuda_position_heads(const PositionHeads& launch, void* stream) {
  if (launch.rows == 0) return nullptr;
  const dim3 grid(static_cast<unsigned>(launch.heads + 2 * launch.kv_heads),
                  static_cast<unsigned>(launch.rows));
  const auto bytes = static_cast<std::size_t>(launch.dim + head_lanes / warp_lanes) * sizeof(float);
  position_kernel<<<grid, head_lanes, bytes, queue(stream)>>>(launch);
  return launch_error();
}

const char* cuda_gate_rows(const GateRows& launch, void* stream) {
  if (launch.rows == 0 || launch.columns == 0) return nullptr;
  const dim3 grid(pieces_of(launch.columns), static_cast<unsigned>(launch.rows));
  gate_kernel<<<grid, gate_lanes, 0, queue(stream)>>>(launch);
  return launch_error();
}

const char* cuda_choose_experts(const ChooseExperts& launch, void* stream) {
  if (launch.rows == 0) return nullptr;
  choose_kernel<<<static_cast<unsigned>(launch.rows), choose_lanes, 0, queue(stream)>>>(launch);
  return launch_error();
}

const char* cuda_mix_experts(const MixExperts& launch, void* stream) {
  if (launch.rows == 0 || launch.columns == 0) return nullptr;
  const dim3 grid(pieces_of(launch.columns), static_cast<unsigned>(launch.rows));
  mix_kernel<<<grid, gate_lanes, 0, queue(stream)>>>(launch);
  return launch_error();
}

}  // namespace anyaccel::ops
