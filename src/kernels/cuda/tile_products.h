// Matrix products of tiles in shared memory. The code is also compiled for the host, where the
// tests run it.
//
// On a device, tensor cores multiply 16-bit tiles through nvcuda::wmma, which all architectures
// since sm_80 support for both 16-bit types. Each warp computes 16 x 16 results at a time. For
// other types, and for all types on the host, each thread computes 4 x 4 results.
#pragma once

#include <type_traits>

#include "kernels/common/host_device.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#endif

namespace anyaccel::ops {

/// Layouts of the two operands:
/// - nt: a[row][k], b[column][k]
/// - nn: a[row][k], b[k][column]
/// - tn: a[k][row], b[k][column]
enum class Lie { nt, nn, tn };

/// c[row][column] = a b, or c += a b with `add`. All three sizes are multiples of 16. Row strides
/// are multiples of 8 elements for 16-bit a and b, and of 4 elements otherwise. All arrays are
/// aligned to 32 bytes.
template <typename T, typename Real>
struct TileProduct {
  int rows, columns, depth;
  const T* a;
  int a_row;
  const T* b;
  int b_row;
  Real* c;
  int c_row;
  bool add;
};

/// Padding per row in shared memory, in elements. It makes consecutive rows begin in different
/// banks.
template <typename T>
constexpr int tile_gap = sizeof(T) == 2 ? 8 : 4;

/// A pack of elements that are loaded and stored as one unit.
template <typename T, int count>
struct alignas(count * sizeof(T)) Pack {
  T at[count];
};

template <Lie lie, typename T, typename Real>
ANYACCEL_ON_BOTH void multiply_patches(int lane, int lanes, const TileProduct<T, Real>& p) {
  constexpr int side = 4;
  using Quad = Pack<T, side>;
  const int across = p.columns / side, all = p.rows / side * across;
  for (int patch = lane; patch < all; patch += lanes) {
    const int row = patch / across * side, place = patch % across;
    // Adjacent threads read adjacent rows of b with `nt`, and adjacent columns otherwise.
    const int first = lie == Lie::nt ? place : place * side, step = lie == Lie::nt ? across : 1;
    Real sums[side][side];
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j)
        sums[i][j] = p.add ? p.c[(row + i) * p.c_row + first + j * step] : Real{0};
    for (int k = 0; k < p.depth; k += side) {
      Quad a[side], b[side];
      for (int i = 0; i < side; ++i) {
        const T* const from =
            lie == Lie::tn ? p.a + (k + i) * p.a_row + row : p.a + (row + i) * p.a_row + k;
        a[i] = *reinterpret_cast<const Quad*>(from);
      }
      for (int j = 0; j < side; ++j) {
        const T* const from = lie == Lie::nt ? p.b + (first + j * step) * p.b_row + k
                                             : p.b + (k + j) * p.b_row + first;
        b[j] = *reinterpret_cast<const Quad*>(from);
      }
      for (int i = 0; i < side; ++i)
        for (int j = 0; j < side; ++j)
          for (int at = 0; at < side; ++at)
            sums[i][j] += static_cast<Real>(lie == Lie::tn ? a[at].at[i] : a[i].at[at]) *
                          static_cast<Real>(lie == Lie::nt ? b[j].at[at] : b[at].at[j]);
    }
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) p.c[(row + i) * p.c_row + first + j * step] = sums[i][j];
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ANYACCEL_FRAGMENTS

template <Lie lie, typename T>
__device__ void multiply_fragments(int lane, int lanes, const TileProduct<T, float>& p) {
  namespace wmma = nvcuda::wmma;
  constexpr int side = 16;
  using RowOrder = wmma::row_major;
  using ColumnOrder = wmma::col_major;
  using A = wmma::fragment<wmma::matrix_a, side, side, side, T,
                           std::conditional_t<lie == Lie::tn, ColumnOrder, RowOrder>>;
  using B = wmma::fragment<wmma::matrix_b, side, side, side, T,
                           std::conditional_t<lie == Lie::nt, ColumnOrder, RowOrder>>;
  const int across = p.columns / side, all = p.rows / side * across;
  __syncwarp();
  for (int at = lane / 32; at < all; at += lanes / 32) {
    const int row = at / across * side, column = at % across * side;
    float* const to = p.c + row * p.c_row + column;
    wmma::fragment<wmma::accumulator, side, side, side, float> sums;
    if (p.add)
      wmma::load_matrix_sync(sums, to, p.c_row, wmma::mem_row_major);
    else
      wmma::fill_fragment(sums, 0.0F);
    for (int k = 0; k < p.depth; k += side) {
      A a;
      B b;
      wmma::load_matrix_sync(a, lie == Lie::tn ? p.a + k * p.a_row + row : p.a + row * p.a_row + k,
                             p.a_row);
      wmma::load_matrix_sync(
          b, lie == Lie::nt ? p.b + column * p.b_row + k : p.b + k * p.b_row + column, p.b_row);
      wmma::mma_sync(sums, a, b, sums);
    }
    wmma::store_matrix_sync(to, sums, p.c_row, wmma::mem_row_major);
  }
}
#endif

/// Multiplies two tiles within a phase. All threads of the block must call it.
template <Lie lie, typename T, typename Real>
ANYACCEL_ON_BOTH void multiply_tiles(int lane, int lanes, const TileProduct<T, Real>& product) {
#if defined(ANYACCEL_FRAGMENTS)
  if constexpr (sizeof(T) == 2)
    multiply_fragments<lie>(lane, lanes, product);
  else
#endif
    multiply_patches<lie>(lane, lanes, product);
}

}  // namespace anyaccel::ops
