// Matrix products of a few rows with a weight matrix, on plain arrays. For such products,
// general-purpose matrix libraries do not saturate the memory bandwidth. Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// A contiguous weight matrix [outputs][inputs]. Both sizes are multiples of 32.
struct SkinnyGemm {
  std::int64_t rows, outputs, inputs;
  const float* weight;
};

/// Maximum number of rows. With more rows, a general matrix product is faster.
constexpr std::int64_t max_skinny_rows = 64;
/// Number of outputs per call of skinny_gemm_forward(). The range of inputs in
/// skinny_gemm_backward() must be a multiple of this.
constexpr std::int64_t skinny_gemm_outputs = 32;

/// Size of `packed` in elements. It holds the transposed rows, padded to whole vectors.
std::int64_t skinny_gemm_packed(const SkinnyGemm& product) noexcept;
/// Packs the inputs [begin, end) of from[rows][inputs] into `packed`. `begin` and `end` are
/// multiples of 16.
void pack_skinny_gemm(Isa isa, const SkinnyGemm& product, const float* from, std::int64_t begin,
                      std::int64_t end, float* packed) noexcept;
/// Computes to[rows][outputs] = from * weight^T, plus `bias` unless it is null, for
/// skinny_gemm_outputs outputs, starting at `output`.
void skinny_gemm_forward(Isa isa, const SkinnyGemm& product, const float* packed, const float* bias,
                         std::int64_t output, float* to) noexcept;
/// Computes to[rows][inputs] = from[rows][outputs] * weight for the inputs [begin, end). With
/// `add`, adds the result to `to`.
void skinny_gemm_backward(Isa isa, const SkinnyGemm& product, const float* from, bool add,
                          std::int64_t begin, std::int64_t end, float* to) noexcept;

}  // namespace anyaccel::ops
