// Matrix products of a few rows with weight tensors. Uses the decoder's kernels, so the op must
// include kernels/decoder/products.cpp.
#pragma once

#include <algorithm>

#include "kernels/decoder/matrix.h"
#include "ops/shared/empty.h"
#include "ops/shared/host_tensors.h"
#include "ops/shared/tasks.h"

namespace anyaccel::ops {

/// Maximum number of rows. With more rows, LibTorch's matrix product is faster.
constexpr std::int64_t max_few_wide_rows = 16;
/// Minimum number of weights. Fewer weights fit in the CPU's cache, so LibTorch's matrix product is
/// as fast.
constexpr std::int64_t min_skinny_gemm_weights = 1 << 16;

/// Computes to[rows][outputs], the matrix product of rows[rows][inputs] (float32) and the
/// transposed weight [outputs, inputs]. Both tensors must be contiguous and in host memory.
inline void multiply_skinny_gemm(const at::Tensor& weight, const at::Tensor& rows, Element element,
                                 float* to) {
  Matrix matrix;
  matrix.format = element == Element::f32    ? Format::f32
                  : element == Element::bf16 ? Format::bf16
                                             : Format::fp16;
  matrix.outputs = weight.size(0), matrix.inputs = weight.size(1);
  matrix.weight = weight.const_data_ptr();
  const Isa isa = best_isa();
  const std::int64_t count = rows.size(0), bytes = prepared_bytes(matrix.format, matrix.inputs);
  const at::Tensor memory = empty({count * bytes + 64}, at::TensorOptions(at::kByte));
  const auto address = reinterpret_cast<std::uintptr_t>(memory.mutable_data_ptr());
  void* const prepared = reinterpret_cast<void*>((address + 63) / 64 * 64);
  prepare_rows(isa, matrix, rows.const_data_ptr<float>(), count, prepared);
  constexpr std::int64_t tile = 64;
  parallel_tasks(
      (matrix.outputs + tile - 1) / tile, task_threads(), [&](std::int64_t at, std::int64_t) {
        const std::int64_t begin = at * tile, end = std::min(matrix.outputs, begin + tile);
        multiply_rows(isa, matrix, prepared, count, begin, end, to + begin, matrix.outputs);
      });
}

}  // namespace anyaccel::ops
