// Products of few rows with a weight, over plain arrays. A general library's products do not reach
// the memory's bandwidth if there are too few rows to hide the reading of the weight. Independent
// of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// A weight [outputs][inputs], contiguous; both sizes are multiples of 32.
struct SkinnyGemm {
  std::int64_t rows, outputs, inputs;
  const float* weight;
};

/// With more rows, a general product is faster.
constexpr std::int64_t max_skinny_rows = 64;
/// Outputs per forward call, and the granularity of the backward call's inputs.
constexpr std::int64_t skinny_gemm_outputs = 32;

/// Size of `packed` in elements: the rows, padded to whole vectors and transposed.
std::int64_t skinny_gemm_packed(const SkinnyGemm& product) noexcept;
/// Packs the inputs [begin, end), multiples of 16, of from[rows][inputs] into `packed`.
void pack_skinny_gemm(Isa isa, const SkinnyGemm& product, const float* from, std::int64_t begin,
                      std::int64_t end, float* packed) noexcept;
/// to[rows][outputs] = from weight^T, plus `bias` unless it is null, for skinny_gemm_outputs
/// outputs from `output` on.
void skinny_gemm_forward(Isa isa, const SkinnyGemm& product, const float* packed, const float* bias,
                         std::int64_t output, float* to) noexcept;
/// to[rows][inputs] (+)= from[rows][outputs] weight, for the inputs [begin, end).
void skinny_gemm_backward(Isa isa, const SkinnyGemm& product, const float* from, bool add,
                          std::int64_t begin, std::int64_t end, float* to) noexcept;

}  // namespace anyaccel::ops
