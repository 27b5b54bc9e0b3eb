// Matrices of a language model and the rows that are multiplied by them, over plain arrays. Nothing
// here knows torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

enum class Format { f32, bf16, fp16, int8, int4 };

/// Weights [outputs][inputs] without gaps. int8 and int4 have groups of `group` inputs, which
/// divides `inputs`: int8: scale * q, a byte each. int4: scale * (q - zero), in blocks of 64 inputs
/// (32 where the group has no more) = 16 (8) little-endian words of 16 bits, whose word i has in
/// its nibble j the input 16 j + i (8 j + i) of the block.
struct Matrix {
  Format format = Format::f32;
  std::int64_t outputs = 0, inputs = 0, group = 0;
  const void* weight = nullptr;
  const float* scales = nullptr;        ///< [outputs][inputs / group]
  const std::uint8_t* zeros = nullptr;  ///< [outputs][inputs / group] of int4; null: 8
};

/// The products of a tile of outputs are summed up in one way, whatever the number of rows and
/// threads: parts of a matrix begin at multiples of this.
constexpr std::int64_t tile_outputs = 4;

/// Bytes of one row in the form in which products read it, a multiple of 64.
std::int64_t prepared_bytes(Format format, std::int64_t inputs) noexcept;
/// from[rows][inputs] into `prepared`, aligned to 64 bytes, for products with `matrix` or one of
/// its format and group. For int8 and int4 a row becomes integers of 16 bits, with a scale for each
/// 128.
void prepare_rows(Isa isa, const Matrix& matrix, const float* from, std::int64_t rows,
                  void* prepared) noexcept;
/// to[row * to_row + output - begin] = sum of prepared row * weight of the outputs [begin, end);
/// `begin` is a multiple of tile_outputs. A row's results have the same bits whatever rows are
/// beside it.
void multiply_rows(Isa isa, const Matrix& matrix, const void* prepared, std::int64_t rows,
                   std::int64_t begin, std::int64_t end, float* to, std::int64_t to_row) noexcept;
/// AVX-512 has two ways through integers, of which the one with VNNI is taken where there is VNNI;
/// false turns it off, for tests. Not between preparing and multiplying.
void want_products_of_bytes(bool wanted) noexcept;

}  // namespace anyaccel::ops
