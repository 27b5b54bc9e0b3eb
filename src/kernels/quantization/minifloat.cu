// CUDA kernels for minifloat quantization. Quantization uses one block per group, and
// dequantization one thread per element. The thread-block code is in minifloat_blocks.h.
#include "kernels/cuda/kernels.h"
#include "kernels/quantization/cuda_minifloat.h"
#include "kernels/quantization/minifloat_blocks.h"

namespace anyaccel::ops {
namespace {

template <typename T>
__global__ void to_floats_kernel(ToFloatsJob job, float format_greatest, std::int64_t groups) {
  __shared__ std::int32_t lanes[fp_quantizer_lanes];
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x)
    to_floats_block<T>(job, format_greatest, group, lanes, BlockThreads{});
}

template <typename T>
__global__ void from_floats_kernel(FromFloatsJob job, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step)
    from_floats_element<T>(job, i / job.group, i / job.group, i % job.group);
}

template <typename T>
__global__ void select_floats_kernel(FromFloatsJob job, SelectedRows selected, std::int64_t size) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    const std::int64_t group = i / job.group, which = group / selected.rows;
    const std::int64_t index = selected.wide
                                   ? static_cast<const std::int64_t*>(selected.indexes)[which]
                                   : static_cast<const std::int32_t*>(selected.indexes)[which];
    if (index < 0 || index >= selected.all_rows / selected.rows)
      store_float(static_cast<T*>(job.to) + i, float_of(0x7fc00000));
    else
      from_floats_element<T>(job, index * selected.rows + group % selected.rows, group,
                             i % job.group);
  }
}

}  // namespace

const char* cuda_to_floats(const ToFloatsJob& job, std::int64_t groups, void* stream) {
  if (groups == 0) return nullptr;
  with_cuda_element(job.element, [&](auto type) {
    to_floats_kernel<decltype(type)>
        <<<blocks_for(groups), fp_quantizer_lanes, 0, static_cast<cudaStream_t>(stream)>>>(
            job, greatest_of(job.format), groups);
  });
  return launch_error();
}

const char* cuda_from_floats(const FromFloatsJob& job, std::int64_t groups, void* stream) {
  const std::int64_t size = groups * job.group;
  if (size == 0) return nullptr;
  with_cuda_element(job.element, [&](auto type) {
    from_floats_kernel<decltype(type)>
        <<<blocks_of_elements(size), chunk_threads, 0, static_cast<cudaStream_t>(stream)>>>(job,
                                                                                            size);
  });
  return launch_error();
}

const char* cuda_select_floats(const FromFloatsJob& job, const SelectedRows& selected,
                               void* stream) {
  const std::int64_t size = selected.count * selected.rows * job.group;
  if (size == 0) return nullptr;
  with_cuda_element(job.element, [&](auto type) {
    select_floats_kernel<decltype(type)>
        <<<blocks_of_elements(size), chunk_threads, 0, static_cast<cudaStream_t>(stream)>>>(
            job, selected, size);
  });
  return launch_error();
}

}  // namespace anyaccel::ops
