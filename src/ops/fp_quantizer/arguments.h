// Tensors of the ops of small floats, checked, and what the kernels make of them: for every device
// whose kernels take plain addresses. Whatever is given, nothing outside of a tensor is read or
// written. What cannot be done throws c10::ValueError.
#pragma once

#include "kernels/quantization/minifloat.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;

/// What an op changes: the kernels fill `dense`, which is the caller's tensor, or one that finish()
/// copies there.
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
  std::int64_t groups;  ///< of the result
};
FromFloatsArguments from_floats_arguments(const char* op, const Tensor& val, const Tensor& val_q,
                                          std::int64_t group, std::int64_t mantissa,
                                          std::int64_t exponent);

/// As many groups for each of the indexes; `all` are those that there are to choose from.
struct SelectArguments {
  FromFloatsArguments rows;
  Tensor indexes;
  std::int64_t rows_of_index, all;
};
SelectArguments select_arguments(const char* op, const Tensor& val, const Tensor& val_q,
                                 const Tensor& indexes, std::int64_t group, std::int64_t mantissa,
                                 std::int64_t exponent);

}  // namespace anyaccel::ops
