// Tensors of the quantizer's ops, checked, and what the kernels make of them: for every device
// whose kernels take plain addresses. Whatever is given, nothing outside of a tensor is read or
// written. What cannot be done throws c10::ValueError.
#pragma once

#include <vector>

#include "kernels/quantization/integer.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;

/// Codes and parameters that a job fills, and the tensors that it reads. `groups` are those that it
/// makes.
struct QuantizeArguments {
  Tensor codes, params, from;
  QuantizeJob job;
  std::int64_t groups;
};
QuantizeArguments quantize_arguments(const char* op, const Tensor& input, std::int64_t groups,
                                     std::int64_t bits, bool asymmetric);

/// How groups are swizzled.
struct Partitions {
  std::int64_t slices, nodes, devices;
};
/// Codes are one long row, in swizzled order.
QuantizeArguments swizzle_arguments(const char* op, const Tensor& input, std::int64_t groups,
                                    std::int64_t bits, bool asymmetric,
                                    const Partitions& partitions);

struct DequantizeArguments {
  Tensor out, from, params;
  DequantizeJob job;
};
DequantizeArguments dequantize_arguments(const char* op, const Tensor& data, const Tensor& params,
                                         std::int64_t groups, std::int64_t bits, bool asymmetric,
                                         at::ScalarType dtype);

struct ReduceArguments {
  Tensor codes, params, from, from_params;
  ReduceJob job;
  std::int64_t groups;
};
ReduceArguments reduce_arguments(const char* op, const Tensor& data, const Tensor& params,
                                 std::int64_t in_groups, std::int64_t out_groups, std::int64_t bits,
                                 bool asymmetric, std::int64_t devices);

struct DequantizeHalfArguments {
  Tensor out, from, scales, least;
  DequantizeHalfJob job;
};
DequantizeHalfArguments dequantize_half_arguments(const char* op, const Tensor& data,
                                                  const Tensor& scale, const Tensor& least,
                                                  std::int64_t groups, std::int64_t group,
                                                  std::int64_t bits);

void check_bits(const char* op, std::int64_t bits);

}  // namespace anyaccel::ops
