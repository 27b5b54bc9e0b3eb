// Row-wise kernels of a transformer layer on a device. rows.h describes their arguments and
// results. Pointers are device pointers, and `stream` is a cudaStream_t. Each function returns as
// soon as its work is queued on the stream, with null on success and the CUDA error message on
// failure. Independent of torch and CUDA.
//
// Sums over rows are first computed in parts: [parts][columns] in the compute type.
// device_sum_parts() then adds the parts in order, so results are bitwise reproducible. The number
// of parts depends only on the sizes.
#pragma once

#include <algorithm>

#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

constexpr int row_lanes = 128;

/// Number of rows per part, and number of parts.
struct RowParts {
  std::int64_t each, count;

  RowParts(std::int64_t rows, std::int64_t most)
      : each(std::max<std::int64_t>(1, (rows + most - 1) / most)),
        count((rows + each - 1) / each) {}
};

/// Parts for the three sums of a norm. A block computes one part.
inline RowParts norm_parts(std::int64_t rows) { return {rows, 512}; }
/// Parts for other sums. A block computes a few columns of one part.
inline RowParts column_parts(std::int64_t rows) { return {rows, 64}; }

/// Partial sums to add. There are `groups` sums of `columns` columns; each is stored in a separate
/// array. Null arrays are skipped.
template <typename S>
struct PartSums {
  std::int64_t parts, columns;
  int groups;
  const typename RealOf<S>::type* from;  ///< [parts][groups][columns]
  S* to[3];
};

template <typename S>
const char* device_add_norm(const AddNorm<S>& pass, std::int64_t rows, void* stream);
/// `parts` is [norm_parts(rows).count][3][columns].
template <typename S>
const char* device_norm_grad(const NormGrad<S>& pass, std::int64_t rows,
                             typename RealOf<S>::type* parts, void* stream);
template <typename S>
const char* device_gelu(const Gelu<S>& pass, std::int64_t rows, void* stream);
/// `parts` is [column_parts(rows).count][columns], here and in device_column_sums().
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
