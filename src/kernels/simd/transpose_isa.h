// Transposition of rows. Square blocks of elements are transposed in vector registers.
#if defined(ANYACCEL_SIMD_TRANSPOSE_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_TRANSPOSE_ISA_H)
#undef ANYACCEL_SIMD_TRANSPOSE_ISA_H
#else
#define ANYACCEL_SIMD_TRANSPOSE_ISA_H
#endif

#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

#if ANYACCEL_WIDTH >= 4
typedef float Row __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
/// Interleaves the first halves of a and b into `low`, and their second halves into `high`.
inline void interleave(Row a, Row b, Row& low, Row& high) {
#if ANYACCEL_WIDTH == 16
  low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  high =
      __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif ANYACCEL_WIDTH == 8
  low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}
inline __attribute__((always_inline)) void transpose(Row (&rows)[ANYACCEL_WIDTH]) {
  for (int step = 1; step < ANYACCEL_WIDTH; step *= 2) {
    Row next[ANYACCEL_WIDTH];
    for (int i = 0; i < ANYACCEL_WIDTH / 2; ++i)
      interleave(rows[i], rows[i + ANYACCEL_WIDTH / 2], next[2 * i], next[2 * i + 1]);
    for (int i = 0; i < ANYACCEL_WIDTH; ++i) rows[i] = next[i];
  }
}
#endif

/// Sets to[column * to_row + row] = from[row * from_row + column] * factor for `all_rows` rows. The
/// rows [rows, all_rows) are zero-filled. `all_rows` must be a multiple of 16.
inline void transpose_rows(const Real* from, std::int64_t from_row, std::int64_t rows,
                           std::int64_t all_rows, std::int64_t columns, Real factor, Real* to,
                           std::int64_t to_row) {
#if ANYACCEL_WIDTH >= 4
  for (std::int64_t first = 0; first < all_rows; first += Vec::width)
    each_vector(
        columns, [&](std::int64_t column, std::int64_t n) __attribute__((always_inline)) {
          Row square[ANYACCEL_WIDTH];
          for (int i = 0; i < Vec::width; ++i) {
            const Vec row =
                first + i < rows
                    ? load_some(from + (first + i) * from_row + column, n) * Vec::of(factor)
                    : Vec::of(0);
            __builtin_memcpy(&square[i], &row.x, sizeof row.x);
          }
          transpose(square);
          for (int i = 0; i < n; ++i)
            __builtin_memcpy(to + (column + i) * to_row + first, &square[i], sizeof square[i]);
        });
#else
  const std::int64_t there = rows < all_rows ? rows : all_rows;
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < there; ++row)
      to[column * to_row + row] = from[row * from_row + column] * factor;
    for (std::int64_t row = there; row < all_rows; ++row) to[column * to_row + row] = 0;
  }
#endif
}

}  // namespace
ANYACCEL_ISA_END
#endif
