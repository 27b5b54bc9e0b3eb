// The passes of rows of a transformer layer for a device: kernels.h has what they are given and do.
// Pointers are the device's, `stream` is a cudaStream_t; the answer is null, or what CUDA says.
// They return when the work is in the stream. Nothing here knows torch or CUDA.
//
// Sums over rows are made in parts, [parts][columns] of the arithmetic's type, which
// device_sum_parts() adds up in their order: the same bits in every run. How many parts there are
// follows from the sizes alone.
#pragma once

#include <algorithm>

#include "kernels/transformer/rows.h"

namespace anyaccel::ops {

constexpr int row_lanes = 128;

/// Rows of one part, and how many parts these come to.
struct RowParts {
  std::int64_t each, count;

  RowParts(std::int64_t rows, std::int64_t most)
      : each(std::max<std::int64_t>(1, (rows + most - 1) / most)),
        count((rows + each - 1) / each) {}
};

/// Of a norm's three sums a block has a part.
inline RowParts norm_parts(std::int64_t rows) { return {rows, 512}; }
/// Of others it has one of few columns.
inline RowParts column_parts(std::int64_t rows) { return {rows, 64}; }

/// What parts come to: sums of `groups` times `columns`, each into memory of its own; null is not
/// wanted.
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

/// All of them for one type, where they are defined.
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
