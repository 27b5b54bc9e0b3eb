// Products of few rows with a weight, over plain arrays: what a general library's product leaves of
// the memory's bandwidth when there are too few rows to hide the weight's reading. Nothing here
// knows torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// A weight [outputs][inputs], without gaps; both are multiples of 32.
struct SkinnyGemm {
  std::int64_t rows, outputs, inputs;
  const float* weight;
};

/// More rows than these are faster in a general product.
constexpr std::int64_t max_skinny_rows = 64;
/// Outputs that one forward call does, and the unit of the backward call's inputs.
constexpr std::int64_t skinny_gemm_outputs = 32;

/// Elements of `packed`: the rows, filled up to whole vectors, transposed.
std::int64_t skinny_gemm_packed(const SkinnyGemm& product) noexcept;
/// Inputs [begin, end), multiples of 16, of from[rows][inputs] into `packed`.
void pack_skinny_gemm(Isa isa, const SkinnyGemm& product, const float* from, std::int64_t begin,
                      std::int64_t end, float* packed) noexcept;
/// to[rows][outputs] = from weight^T, and `bias` unless it is null, for the outputs from `output`.
void skinny_gemm_forward(Isa isa, const SkinnyGemm& product, const float* packed, const float* bias,
                         std::int64_t output, float* to) noexcept;
/// to[rows][inputs] (+)= from[rows][outputs] weight, for the inputs [begin, end).
void skinny_gemm_backward(Isa isa, const SkinnyGemm& product, const float* from, bool add,
                          std::int64_t begin, std::int64_t end, float* to) noexcept;

}  // namespace anyaccel::ops
