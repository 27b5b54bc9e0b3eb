// Matrices of a language model and the rows that are multiplied by them, on plain arrays.
// Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace anyaccel::ops {

enum class Format { f32, bf16, fp16, int8, int4 };

/// Contiguous weights [outputs][inputs]. int8 and int4 have one scale per group of `group` inputs;
/// `group` divides `inputs`.
/// - int8: scale * q, one byte per weight.
/// - int4: scale * (q - zero), in blocks of 64 inputs, or 32 if `group` is not a multiple of 64. A
///   block has 16 (8) little-endian 16-bit words. Nibble j of word i is input 16 j + i (8 j + i) of
///   the block.
struct Matrix {
  Format format = Format::f32;
  std::int64_t outputs = 0, inputs = 0, group = 0;
  const void* weight = nullptr;
  const float* scales = nullptr;  ///< [outputs][inputs / group]
  /// Zero points [outputs][inputs / group], int4 only; null if all of them are 8.
  const std::uint8_t* zeros = nullptr;
};

/// A matrix may only be split at multiples of this number of outputs. The order in which the
/// products of a tile are summed then does not depend on the number of rows or threads.
constexpr std::int64_t tile_outputs = 4;

/// Size of a prepared row in bytes, a multiple of 64.
std::int64_t prepared_bytes(Format format, std::int64_t inputs) noexcept;
/// Converts from[rows][inputs] into `prepared`, which is aligned to 64 bytes, for products with
/// `matrix` or other matrices of the same format and group size. For int8 and int4, rows are
/// converted to 16-bit integers with one scale per 128 inputs.
void prepare_rows(Isa isa, const Matrix& matrix, const float* from, std::int64_t rows,
                  void* prepared) noexcept;
/// Sets to[row * to_row + output - begin] to the dot product of a prepared row and the weights of
/// an output, for the outputs [begin, end). `begin` is a multiple of tile_outputs. A row's results
/// are bitwise independent of other rows.
void multiply_rows(Isa isa, const Matrix& matrix, const void* prepared, std::int64_t rows,
                   std::int64_t begin, std::int64_t end, float* to, std::int64_t to_row) noexcept;
/// Enables or disables integer matrix products with AVX-512 VNNI, for tests. They are enabled by
/// default and used if the processor supports them. Must not be called between prepare_rows() and
/// multiply_rows().
void want_products_of_bytes(bool wanted) noexcept;

}  // namespace anyaccel::ops
