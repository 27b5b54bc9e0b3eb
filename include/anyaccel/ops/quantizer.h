// int8 and int4 for groups of numbers, with a step, or a step and an offset, for each group: what
// DeepSpeed's QuantizerBuilder has, under its names. Link `anyaccel::ops`. docs/reference/ops.md
// has the Python side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

/// All functions: groups are of successive elements, in the tensor's order. `num_bits` is 8 or 4;
/// int4 are two to a byte, the first in the upper four bits, and their groups have an even number
/// of elements. The first call loads the op, which may compile it: `build_failed` or `unavailable`
/// when that cannot be. What does not fit is `invalid_argument`; inputs are never changed. Threads
/// may call at once.
namespace anyaccel::ops::quantizer {

enum class QuantizationType { symmetric, asymmetric };

/// int8 codes and float32 parameters [groups, 1], the step between two codes, or asymmetric
/// [groups, 2], with the value of code 0 behind it.
struct Quantized {
  at::Tensor codes, params;
};

/// Codes of a float32, bfloat16 or float16 tensor, whose elements `groups` divides. symmetric: the
/// greatest magnitude of a group is 2^(bits-1) steps; asymmetric: its least and greatest value are
/// 2^bits steps apart. Codes are rounded to the nearest, ties to even, and held in the range, so
/// that a group's greatest value is off by up to one step, all others by half of one. With a NaN or
/// an infinity in it a group is read back as NaN, but for one whose values are all the same
/// infinity and asymmetric. The codes have the input's shape, with int4 half of its last dimension.
ANYACCEL_API Quantized quantize(const at::Tensor& input, std::int64_t groups, std::int64_t num_bits,
                                QuantizationType type = QuantizationType::symmetric);

/// code * step + offset, of dtype float32, float16 or bfloat16.
ANYACCEL_API at::Tensor dequantize(const Quantized& quantized, std::int64_t groups,
                                   std::int64_t num_bits,
                                   QuantizationType type = QuantizationType::symmetric,
                                   at::ScalarType dtype = at::kHalf);

/// quantize(), the codes as one row, in another order of groups: they are
/// [node][device][slice][...] in the input, for nodes * devices_per_node receivers, and
/// [slice][device][node][...] in the result, as an all-to-all in each node and then one between
/// nodes wants them.
ANYACCEL_API Quantized swizzle_quant(const at::Tensor& input, std::int64_t groups,
                                     std::int64_t num_bits, QuantizationType type,
                                     std::int64_t pipeline_size, std::int64_t nodes,
                                     std::int64_t devices_per_node);

/// What `devices_per_node` devices quantized, one behind the other in the last dimension, is read,
/// added up in float32 and quantized again. `in_groups` are all of theirs, `out_groups` those of
/// the sum.
ANYACCEL_API Quantized quantized_reduction(const Quantized& inputs, std::int64_t in_groups,
                                           std::int64_t out_groups, std::int64_t num_bits,
                                           QuantizationType type, std::int64_t devices_per_node);

/// float16 [num_group, group_size] of uint8 codes without a sign: code / scale + min_value, rounded
/// to float16 after each. Scales and least values are float16, one for each group.
ANYACCEL_API at::Tensor dequantize_to_half(const at::Tensor& codes, const at::Tensor& scale,
                                           const at::Tensor& min_value, std::int64_t num_group,
                                           std::int64_t group_size, std::int64_t num_bits);

}  // namespace anyaccel::ops::quantizer
