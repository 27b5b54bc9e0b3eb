// Validates the tensors of the quantizer ops and converts them for the kernels, for any device
// whose kernels take raw pointers. The checks ensure that the kernels cannot access memory outside
// of the tensors. Invalid arguments throw c10::ValueError.
#pragma once

#include <vector>

#include "kernels/quantization/integer.h"
#include "ops/shared/host_tensors.h"

namespace anyaccel::ops {

using at::Tensor;

/// The codes and parameters that a job writes, and the tensor that it reads. `groups` is the number
/// of groups.
struct QuantizeArguments {
  Tensor codes, params, from;
  QuantizeJob job;
  std::int64_t groups;
};
QuantizeArguments quantize_arguments(const char* op, const Tensor& input, std::int64_t groups,
                                     std::int64_t bits, bool asymmetric);

/// Sizes that determine the swizzled order of groups.
struct Partitions {
  std::int64_t slices, nodes, devices;
};
/// The resulting codes are one flat row in swizzled order.
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
