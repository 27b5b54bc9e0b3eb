// Validates the tensors of the minifloat ops and converts them for the kernels, for any device
// whose kernels take raw pointers. The checks ensure that the kernels cannot access memory outside
// of the tensors. Invalid arguments throw c10::ValueError.
#pragma once

#include "kernels/quantization/minifloat.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;

/// An output. The kernels write to `dense`, which is either the caller's tensor or a temporary that
/// finish() copies to the caller's tensor.
struct Changed {
  Tensor arguments, dense;
  void finish() const;
};

struct ToFloatsArguments {
  Changed out;
  Tensor from;
  ToFloatsJob job;
  std::int64_t groups;
};
ToFloatsArguments to_floats_arguments(const char* op, const Tensor& out, const Tensor& val,
                                      std::int64_t group, std::int64_t bits, std::int64_t mantissa,
                                      bool stochastic, std::int64_t seed);

struct FromFloatsArguments {
  Changed out;
  Tensor from;
  FromFloatsJob job;
  std::int64_t groups;  ///< number of groups in the result
};
FromFloatsArguments from_floats_arguments(const char* op, const Tensor& val, const Tensor& val_q,
                                          std::int64_t group, std::int64_t mantissa,
                                          std::int64_t exponent);

/// Each index selects `rows_of_index` groups; `all` is the total number of groups.
struct SelectArguments {
  FromFloatsArguments rows;
  Tensor indexes;
  std::int64_t rows_of_index, all;
};
SelectArguments select_arguments(const char* op, const Tensor& val, const Tensor& val_q,
                                 const Tensor& indexes, std::int64_t group, std::int64_t mantissa,
                                 std::int64_t exponent);

}  // namespace anyaccel::ops
