// The row passes of a transformer layer on a device; rows.h describes their arguments and results.
// Pointers are device pointers, and `stream` is a cudaStream_t. The functions return when the work
// is queued on the stream: null, or the CUDA error message. Independent of torch and CUDA.
//
// Sums over rows are computed in parts, [parts][columns] of the arithmetic's type, which
// device_sum_parts() adds in order, so results are bitwise reproducible. The number of parts
// depends only on the sizes.
#pragma once

#include <algorithm>

#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

constexpr int row_lanes = 128;

/// Rows per part, and the number of parts.
struct RowParts {
  std::int64_t each, count;

  RowParts(std::int64_t rows, std::int64_t most)
      : each(std::max<std::int64_t>(1, (rows + most - 1) / most)),
        count((rows + each - 1) / each) {}
};

/// For the three sums of a norm, a block computes one part.
inline RowParts norm_parts(std::int64_t rows) { return {rows, 512}; }
/// For other sums, a block computes a few columns of one part.
inline RowParts column_parts(std::int64_t rows) { return {rows, 64}; }

/// Adds parts: `groups` sums of `columns` columns, each into its own array; null arrays are
/// skipped.
template <typename S>
struct PartSums {
  std::int64_t parts, columns;
  int groups;
  const typename RealOf<S>::type* from;  ///< [parts][groups][columns]
  S* to[3];
};

template <typename S>
const char* device_add_norm(const AddNorm<S>& pass, std::int64_t rows, void* stream);
/// `parts`: [norm_parts(rows).count][3][columns].
template <typename S>
const char* device_norm_grad(const NormGrad<S>& pass, std::int64_t rows,
                             typename RealOf<S>::type* parts, void* stream);
template <typename S>
const char* device_gelu(const Gelu<S>& pass, std::int64_t rows, void* stream);
/// `parts`: [column_parts(rows).count][columns], here and for column sums.
template <typename S>
const char* device_gelu_grad(const Gelu<S>& pass, S* grad, std::int64_t rows,
                             typename RealOf<S>::type* parts, void* stream);
template <typename S>
const char* device_column_sums(const S* from, std::int64_t columns, std::int64_t rows,
                               typename RealOf<S>::type* parts, void* stream);
template <typename S>
const char* device_sum_parts(const PartSums<S>& sums, void* stream);

/// Instantiates all functions for one type.
// NOLINTBEGIN(bugprone-macro-parentheses): types
#define ANYACCEL_DEVICE_ROWS(S)                                                                   \
  template const char* device_add_norm(const AddNorm<S>&, std::int64_t, void*);                   \
  template const char* device_norm_grad(const NormGrad<S>&, std::int64_t, RealOf<S>::type*,       \
                                        void*);                                                   \
  template const char* device_gelu(const Gelu<S>&, std::int64_t, void*);                          \
  template const char* device_gelu_grad(const Gelu<S>&, S*, std::int64_t, RealOf<S>::type*,       \
                                        void*);                                                   \
  template const char* device_column_sums(const S*, std::int64_t, std::int64_t, RealOf<S>::type*, \
                                          void*);                                                 \
  template const char* device_sum_parts(const PartSums<S>&, void*)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace anyaccel::ops
