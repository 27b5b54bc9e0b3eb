// Tensors of the quantizer's ops, checked, and what the kernels make of them: for every device whose kernels take plain addresses.
// Whatever is given, nothing outside of a tensor is read or written. What cannot be done throws c10::ValueError.
#pragma once

#include <vector>

#include "kernels/quantization/integer.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;

/// Codes and parameters that a job fills, and the tensors that it reads. `groups` are those that it makes.
struct QuantizeGiven {
  Tensor codes, params, from;
  QuantizeJob job;
  std::int64_t groups;
};
QuantizeGiven quantize_given(const char* op, const Tensor& input, std::int64_t groups, std::int64_t bits,
                             bool asymmetric);

/// How groups are swizzled.
struct Partitions {
  std::int64_t slices, nodes, devices;
};
/// Codes are one long row, in swizzled order.
QuantizeGiven swizzle_given(const char* op, const Tensor& input, std::int64_t groups, std::int64_t bits,
                            bool asymmetric, const Partitions& partitions);

struct DequantizeGiven {
  Tensor out, from, params;
  DequantizeJob job;
};
DequantizeGiven dequantize_given(const char* op, const Tensor& data, const Tensor& params, std::int64_t groups,
                                 std::int64_t bits, bool asymmetric, at::ScalarType dtype);

struct ReduceGiven {
  Tensor codes, params, from, from_params;
  ReduceJob job;
  std::int64_t groups;
};
ReduceGiven reduce_given(const char* op, const Tensor& data, const Tensor& params, std::int64_t in_groups,
                         std::int64_t out_groups, std::int64_t bits, bool asymmetric, std::int64_t devices);

struct DequantizeHalfGiven {
  Tensor out, from, scales, least;
  DequantizeHalfJob job;
};
DequantizeHalfGiven dequantize_half_given(const char* op, const Tensor& data, const Tensor& scale, const Tensor& least,
                                          std::int64_t groups, std::int64_t group, std::int64_t bits);

void check_bits(const char* op, std::int64_t bits);

}  // namespace anyaccel::ops
