// Small matrix products with elements of type `Real`.
#if defined(ANYACCEL_SIMD_PRODUCTS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SIMD_PRODUCTS_ISA_H)
#undef ANYACCEL_SIMD_PRODUCTS_ISA_H
#else
#define ANYACCEL_SIMD_PRODUCTS_ISA_H
#endif

#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

/// C = A B, or C += A B. A and B consist of `count` blocks, whose products are summed. Block i
/// begins at a + i * a_step and at b + blocks[i] * b_step. If `blocks` is null, all blocks[i] are
/// treated as 0. A block of A is [m][depth], or [depth][m] if transposed. A block of B is
/// [depth][n].
struct Product {
  std::int64_t m, n, depth;
  const Real* a;
  std::int64_t a_row;
  const Real* b;
  std::int64_t b_row;
  Real* c;
  std::int64_t c_row;
  const std::int32_t* blocks;
  std::int64_t count, a_step, b_step;
};

/// Computes one tile of C in registers. If `split` is 2, even and odd elements are summed
/// separately, because the latency of additions would limit a single sum.
template <bool transposed, bool add, int rows, int vectors, int split>
inline __attribute__((always_inline)) void multiply_tile(const Product& p, std::int64_t row,
                                                         std::int64_t column) {
  Vec sum[split][rows][vectors];
  Real* c = p.c + row * p.c_row + column;
  for (int s = 0; s < split; ++s)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < vectors; ++j)
        sum[s][i][j] = add && s == 0 ? Vec::load(c + i * p.c_row + j * Vec::width) : Vec::of(0);
  for (std::int64_t block = 0; block < p.count; ++block) {
    const Real* a = p.a + block * p.a_step + (transposed ? row : row * p.a_row);
    const Real* b = p.b + (p.blocks ? p.blocks[block] * p.b_step : 0) + column;
    const std::int64_t a_row = p.a_row, b_row = p.b_row;
    const auto step = [&](int s) __attribute__((always_inline)) {
      Vec vector[vectors];
      for (int j = 0; j < vectors; ++j) vector[j] = Vec::load(b + s * b_row + j * Vec::width);
      for (int i = 0; i < rows; ++i) {
        const Vec factor = Vec::of(transposed ? a[s * a_row + i] : a[i * a_row + s]);
        for (int j = 0; j < vectors; ++j) sum[s][i][j] = Vec::fma(factor, vector[j], sum[s][i][j]);
      }
    };
    std::int64_t k = 0;
    for (; k + split <= p.depth; k += split) {
      for (int s = 0; s < split; ++s) step(s);
      a += transposed ? split * a_row : split;
      b += split * b_row;
    }
    if (split == 2 && k < p.depth) step(0);
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vectors; ++j) {
      Vec all = sum[0][i][j];
      if (split == 2) all = all + sum[split - 1][i][j];
      all.store(c + i * p.c_row + j * Vec::width);
    }
}

template <bool transposed, bool add, int rows>
inline __attribute__((always_inline)) void multiply_rows(const Product& p, std::int64_t row) {
  std::int64_t column = 0;
  for (; column + 2 * Vec::width <= p.n; column += 2 * Vec::width)
    multiply_tile<transposed, add, rows, 2, rows == 1 ? 2 : 1>(p, row, column);
  if (column < p.n) multiply_tile<transposed, add, rows, 1, 2>(p, row, column);
}

/// Computes a matrix product. `n` must be a multiple of 16. The fastest sizes are multiples of 8
/// for `m` and even numbers for `depth`.
template <bool transposed, bool add>
__attribute__((noinline)) void multiply(const Product& p) {
  constexpr int rows = Vec::width == 16 ? 8 : 4;
  std::int64_t row = 0;
  for (; row + rows <= p.m; row += rows) multiply_rows<transposed, add, rows>(p, row);
  for (; row < p.m; ++row) multiply_rows<transposed, add, 1>(p, row);
}

}  // namespace
ANYACCEL_ISA_END
#endif
