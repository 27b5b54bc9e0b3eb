// Functions that launch the CUDA kernels for minifloat quantization. Pointers are device pointers,
// and `stream` is a cudaStream_t. Each function returns as soon as its work is queued on the
// stream, with null on success and the CUDA error message on failure.
#pragma once

#include "kernels/quantization/minifloat.h"

namespace anyaccel::ops {

const char* cuda_to_floats(const ToFloatsJob& job, std::int64_t groups, void* stream);
const char* cuda_from_floats(const FromFloatsJob& job, std::int64_t groups, void* stream);

/// Rows to dequantize. Each of the `count` indexes selects the `rows` rows that begin at index *
/// rows. Indexes are int64 if `wide` is set and int32 otherwise. The results are stored
/// consecutively. An index that is out of range produces NaN, because the host does not know the
/// indexes and cannot reject it.
struct SelectedRows {
  const void* indexes;
  bool wide;
  std::int64_t count, rows, all_rows;
};
const char* cuda_select_floats(const FromFloatsJob& job, const SelectedRows& selected,
                               void* stream);

}  // namespace anyaccel::ops
