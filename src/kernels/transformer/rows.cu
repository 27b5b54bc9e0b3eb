// CUDA kernels for the row-wise operations of a transformer layer. The thread-block code is in
// rows_blocks.h.
#include <cstring>

#include "kernels/cuda/kernels.h"
#include "kernels/transformer/rows_blocks.h"

namespace anyaccel::ops {
namespace {

/// CUDA's element type for S.
template <typename S>
struct OnDevice {
  using type = S;
};
template <>
struct OnDevice<Bf16> {
  using type = __nv_bfloat16;
};
template <>
struct OnDevice<Fp16> {
  using type = __half;
};
template <typename S>
using Device = typename OnDevice<S>::type;

/// Casts the pointers of an argument struct to CUDA's element type.
template <template <typename> class Pass, typename S>
Pass<Device<S>> of_device(const Pass<S>& pass) {
  static_assert(sizeof(Pass<Device<S>>) == sizeof(Pass<S>));
  Pass<Device<S>> out;
  std::memcpy(static_cast<void*>(&out), &pass, sizeof out);
  return out;
}

template <typename T>
using RealOfT = typename RealOf<T>::type;

template <typename T>
__global__ void __launch_bounds__(row_lanes)
    add_norm_kernel(AddNorm<T> pass, bool wide, std::int64_t rows) {
  extern __shared__ __align__(16) char memory[];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    add_norm_block(pass, wide, row, BlockThreads(), reinterpret_cast<RealOfT<T>*>(memory));
}

template <typename T>
__global__ void __launch_bounds__(row_lanes)
    norm_grad_kernel(NormGrad<T> pass, bool wide, std::int64_t rows, RowParts parts, bool in_shared,
                     RealOfT<T>* to) {
  extern __shared__ __align__(16) char memory[];
  for (std::int64_t part = blockIdx.x; part < parts.count; part += gridDim.x)
    norm_grad_block(pass, wide, rows, parts.each, part, in_shared, BlockThreads(),
                    reinterpret_cast<RealOfT<T>*>(memory), to);
}

template <typename T>
__global__ void __launch_bounds__(row_lanes)
    gelu_kernel(Gelu<T> pass, bool wide, std::int64_t rows, std::int64_t blocks) {
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x)
    gelu_block(pass, wide, rows, block, static_cast<int>(threadIdx.x));
}

template <typename T>
__global__ void __launch_bounds__(row_lanes)
    gelu_grad_kernel(Gelu<T> pass, T* grad, bool wide, std::int64_t rows, RowParts parts,
                     std::int64_t blocks, RealOfT<T>* to) {
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x)
    gelu_grad_block(pass, grad, wide, rows, parts.each, block, static_cast<int>(threadIdx.x), to);
}

template <typename T>
__global__ void __launch_bounds__(row_lanes)
    column_sums_kernel(const T* from, std::int64_t columns, bool wide, std::int64_t rows,
                       RowParts parts, std::int64_t blocks, RealOfT<T>* to) {
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x)
    column_sums_block(from, columns, wide, rows, parts.each, block, static_cast<int>(threadIdx.x),
                      to);
}

template <typename T>
__global__ void __launch_bounds__(row_lanes)
    sum_parts_kernel(PartSums<T> pass, std::int64_t blocks) {
  __shared__ RealOfT<T> shared[row_lanes];
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    sum_parts_block(pass, block, BlockThreads(), shared);
  }
}

cudaStream_t queue(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

template <typename S>
const char* device_add_norm(const AddNorm<S>& given, std::int64_t rows, void* stream) {
  using T = Device<S>;
  if (rows == 0) return nullptr;
  const AddNorm<T> pass = of_device(given);
  const bool wide = are_wide<T>(pass.columns, pass.product, pass.bias, pass.residual, pass.sum,
                                pass.out, pass.weight, pass.shift);
  const auto bytes = static_cast<std::size_t>(add_norm_shared(pass.columns, Sixteen<T>::count)) *
                     sizeof(RealOfT<T>);
  if (const char* problem = allow_shared(add_norm_kernel<T>, bytes)) return problem;
  add_norm_kernel<T><<<blocks_for(rows), row_lanes, bytes, queue(stream)>>>(pass, wide, rows);
  return launch_error();
}

template <typename S>
const char* device_norm_grad(const NormGrad<S>& given, std::int64_t rows,
                             typename RealOf<S>::type* parts, void* stream) {
  using T = Device<S>;
  if (rows == 0) return nullptr;
  const NormGrad<T> pass = of_device(given);
  const bool wide = are_wide<T>(pass.columns, pass.grad, pass.sum, pass.out, pass.weight,
                                pass.shift, pass.plus, pass.grad_sum, pass.grad_product);
  const std::size_t size = sizeof(RealOfT<T>);
  const auto bytes = static_cast<std::size_t>(norm_grad_shared(pass.columns, size)) * size;
  const RowParts division = norm_parts(rows);
  norm_grad_kernel<T><<<blocks_for(division.count), row_lanes, bytes, queue(stream)>>>(
      pass, wide, rows, division, sums_are_shared(pass.columns, size), parts);
  return launch_error();
}

template <typename S>
const char* device_gelu(const Gelu<S>& given, std::int64_t rows, void* stream) {
  using T = Device<S>;
  const Gelu<T> pass = of_device(given);
  constexpr std::int64_t each = row_lanes * Sixteen<T>::count;
  const std::int64_t blocks = (rows * pass.columns + each - 1) / each;
  if (blocks == 0) return nullptr;
  gelu_kernel<T><<<blocks_for(blocks), row_lanes, 0, queue(stream)>>>(
      pass, are_wide<T>(pass.columns, pass.from, pass.bias, pass.to), rows, blocks);
  return launch_error();
}

template <typename S>
const char* device_gelu_grad(const Gelu<S>& given, S* grad, std::int64_t rows,
                             typename RealOf<S>::type* parts, void* stream) {
  using T = Device<S>;
  const Gelu<T> pass = of_device(given);
  const RowParts division = column_parts(rows);
  const std::int64_t blocks = division.count * column_strips<T>(pass.columns);
  if (blocks == 0) return nullptr;
  gelu_grad_kernel<T><<<blocks_for(blocks), row_lanes, 0, queue(stream)>>>(
      pass, reinterpret_cast<T*>(grad), are_wide<T>(pass.columns, pass.from, pass.bias, grad), rows,
      division, blocks, parts);
  return launch_error();
}

template <typename S>
const char* device_column_sums(const S* from, std::int64_t columns, std::int64_t rows,
                               typename RealOf<S>::type* parts, void* stream) {
  using T = Device<S>;
  const RowParts division = column_parts(rows);
  const std::int64_t blocks = division.count * column_strips<T>(columns);
  if (blocks == 0) return nullptr;
  column_sums_kernel<T><<<blocks_for(blocks), row_lanes, 0, queue(stream)>>>(
      reinterpret_cast<const T*>(from), columns, are_wide<T>(columns, from), rows, division, blocks,
      parts);
  return launch_error();
}

template <typename S>
const char* device_sum_parts(const PartSums<S>& given, void* stream) {
  using T = Device<S>;
  const std::int64_t blocks = sum_blocks(given.columns, given.groups);
  if (blocks == 0) return nullptr;
  sum_parts_kernel<T>
      <<<blocks_for(blocks), row_lanes, 0, queue(stream)>>>(of_device(given), blocks);
  return launch_error();
}

ANYACCEL_DEVICE_ROWS(float);
ANYACCEL_DEVICE_ROWS(Bf16);
ANYACCEL_DEVICE_ROWS(Fp16);
ANYACCEL_DEVICE_ROWS(double);

}  // namespace anyaccel::ops
