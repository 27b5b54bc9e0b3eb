// Launch helpers for the CUDA kernels. Source files with kernels do not include torch, so nvcc
// compiles each one in seconds.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "kernels/optimizer/multi_tensor.h"

namespace anyaccel::ops {

constexpr int chunk_threads = 256;

inline const char* launch_error() {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

/// Allows a kernel to use `bytes` of dynamic shared memory. CUDA requires this call above 48 KiB,
/// and rejects sizes that the device does not support. Returns null on success and the CUDA error
/// message on failure.
template <typename Kernel>
const char* allow_shared(Kernel kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return nullptr;
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status == cudaSuccess) return nullptr;
  static_cast<void>(cudaGetLastError());  // otherwise a later launch would report this error
  return cudaGetErrorString(status);
}

/// Runs a function on all threads of the block, followed by a barrier. The host version exists only
/// because callers are compiled for both the host and CUDA.
struct BlockThreads {
  template <typename Function>
  __host__ __device__ void operator()(const Function& function) const {
#if defined(__CUDA_ARCH__)
    function(static_cast<int>(threadIdx.x));
    __syncthreads();
#endif
  }
};

/// Maximum number of blocks in a grid. If there is more work, each block processes several items.
constexpr std::int64_t max_blocks = 1 << 20;
inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(count < max_blocks ? count : max_blocks);
}
inline unsigned blocks_of_elements(std::int64_t size) {
  return blocks_for((size + chunk_threads - 1) / chunk_threads);
}

/// The device's 16-bit types. Tests compile the same functions with other types.
struct CudaTypes {
  using Bf16 = __nv_bfloat16;
  using Fp16 = __half;
};

/// Calls call(T()), where T is the device type of `element`.
template <typename Call>
auto with_cuda_element(Element element, const Call& call) {
  if (element == Element::f32) return call(float());
  if (element == Element::bf16) return call(__nv_bfloat16());
  return call(__half());
}

/// Calls call(P(), G(), S()) with the device types of parameters, gradients and states. The caller
/// has validated the combination.
template <typename P, typename Call>
void with_cuda_gradients(Element gradient, Element state, const Call& call) {
  if (gradient == Element::f32)
    return state == Element::f32 ? call(P(), float(), float()) : call(P(), float(), P());
  return state == Element::f32 ? call(P(), P(), float()) : call(P(), P(), P());
}
template <typename Call>
void with_cuda_elements(Element parameter, Element gradient, Element state, const Call& call) {
  if (parameter == Element::f32) return call(float(), float(), float());
  if (parameter == Element::bf16) return with_cuda_gradients<__nv_bfloat16>(gradient, state, call);
  with_cuda_gradients<__half>(gradient, state, call);
}

}  // namespace anyaccel::ops
