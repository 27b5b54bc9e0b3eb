// Matrices of a language model and the rows that they multiply, over plain arrays. Independent of
// torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

enum class Format { f32, bf16, fp16, int8, int4 };

/// Weights [outputs][inputs], contiguous. int8 and int4 have a scale for each group of `group`
/// inputs, which divides `inputs`.
/// - int8: scale * q, one byte each.
/// - int4: scale * (q - zero), in blocks of 64 inputs (32 if `group` is not a multiple of 64). A
///   block has 16 (8) little-endian 16-bit words; nibble j of word i is the block's input 16 j + i
///   (8 j + i).
struct Matrix {
  Format format = Format::f32;
  std::int64_t outputs = 0, inputs = 0, group = 0;
  const void* weight = nullptr;
  const float* scales = nullptr;        ///< [outputs][inputs / group]
  const std::uint8_t* zeros = nullptr;  ///< [outputs][inputs / group], int4 only; null: all are 8
};

/// Parts of a matrix begin at multiples of this, so that the order in which the products of a tile
/// are summed does not depend on the numbers of rows and threads.
constexpr std::int64_t tile_outputs = 4;

/// Bytes of a prepared row, a multiple of 64.
std::int64_t prepared_bytes(Format format, std::int64_t inputs) noexcept;
/// Converts from[rows][inputs] to `prepared`, aligned to 64 bytes, for products with `matrix` or
/// matrices of the same format and group. For int8 and int4, a row becomes 16-bit integers, with
/// one scale per 128.
void prepare_rows(Isa isa, const Matrix& matrix, const float* from, std::int64_t rows,
                  void* prepared) noexcept;
/// to[row * to_row + output - begin] = dot product of prepared row and weight, for the outputs
/// [begin, end). `begin` is a multiple of tile_outputs. A row's results are bitwise independent of
/// the other rows.
void multiply_rows(Isa isa, const Matrix& matrix, const void* prepared, std::int64_t rows,
                   std::int64_t begin, std::int64_t end, float* to, std::int64_t to_row) noexcept;
/// AVX-512 has two implementations of integer products. The one with VNNI is used if the processor
/// supports it; false disables it, for tests. Must not be called between prepare_rows() and
/// multiply_rows().
void want_products_of_bytes(bool wanted) noexcept;

}  // namespace anyaccel::ops
