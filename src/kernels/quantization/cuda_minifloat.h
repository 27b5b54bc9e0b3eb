// The CUDA kernels, as plain functions: addresses are the device's, `stream` is a cudaStream_t. The
// answer is null, or what CUDA says; they return when the work is in the stream.
#pragma once

#include "kernels/quantization/minifloat.h"

namespace anyaccel::ops {

const char* cuda_to_floats(const ToFloatsJob& job, std::int64_t groups, void* stream);
const char* cuda_from_floats(const FromFloatsJob& job, std::int64_t groups, void* stream);

/// For each of `count` indexes, of 4 or 8 bytes, the `rows` rows that begin at index * rows, one
/// result behind the other. Indexes that `all_rows` does not have give NaN: only the device knows
/// them.
struct SelectedRows {
  const void* indexes;
  bool wide;
  std::int64_t count, rows, all_rows;
};
const char* cuda_select_floats(const FromFloatsJob& job, const SelectedRows& selected,
                               void* stream);

}  // namespace anyaccel::ops
