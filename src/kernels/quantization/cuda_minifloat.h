// CUDA kernels, as plain functions. Pointers are device pointers, and `stream` is a cudaStream_t.
// They return when the work is queued on the stream: null, or the CUDA error message.
#pragma once

#include "kernels/quantization/minifloat.h"

namespace anyaccel::ops {

const char* cuda_to_floats(const ToFloatsJob& job, std::int64_t groups, void* stream);
const char* cuda_from_floats(const FromFloatsJob& job, std::int64_t groups, void* stream);

/// Selects, for each of `count` indexes of 4 or 8 bytes, the `rows` rows that begin at index *
/// rows. The results are consecutive. Indexes out of range give NaN, because only the device knows
/// them.
struct SelectedRows {
  const void* indexes;
  bool wide;
  std::int64_t count, rows, all_rows;
};
const char* cuda_select_floats(const FromFloatsJob& job, const SelectedRows& selected,
                               void* stream);

}  // namespace anyaccel::ops
