// Group-wise quantization to int8 or int4, with a scale (symmetric) or a scale and an offset
// (asymmetric) per group. The functions have the same names as in DeepSpeed's QuantizerBuilder.
// Link `anyaccel::ops`. docs/reference/ops.md describes the Python interface.
//
//     using namespace anyaccel::ops;
//     const auto quantized = quantizer::quantize(weight, /*groups=*/64, /*num_bits=*/8);
//     const at::Tensor back = quantizer::dequantize(quantized, 64, 8);  // float16
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

/// Groups consist of consecutive elements in the tensor's order. `num_bits` is 8 or 4. Two int4
/// codes share a byte, the first one in the upper four bits, so int4 groups must have an even
/// number of elements.
///
/// The first call of a function loads the op, building it first if necessary, and throws
/// `build_failed` or `unavailable` if that fails. Invalid arguments throw `invalid_argument`.
/// Inputs are never changed. Threads may call the functions concurrently.
namespace anyaccel::ops::quantizer {

/// Whether codes have an offset.
enum class QuantizationType { symmetric, asymmetric };

/// Codes (int8) and float32 parameters. For symmetric quantization, the parameters are the scales,
/// [groups, 1]. For asymmetric quantization, they are [groups, 2]: the scale and the value that
/// code 0 represents.
struct Quantized {
  at::Tensor codes, params;
};

/// Quantize a float32, bfloat16 or float16 tensor. The number of elements must be a multiple of
/// `groups`. Returns codes with the input's shape; with int4, the last dimension is half as large.
///
/// Symmetric: the largest magnitude of a group corresponds to 2^(bits-1) steps. Asymmetric: the
/// minimum and maximum of a group are 2^bits steps apart. Codes are rounded to nearest, ties to
/// even, and clamped to their range, so the error is up to one step for a group's largest value and
/// up to half a step for all others. A group with a NaN or an infinity dequantizes to NaN, except
/// an asymmetric group in which all values are the same infinity.
ANYACCEL_API Quantized quantize(const at::Tensor& input, std::int64_t groups, std::int64_t num_bits,
                                QuantizationType type = QuantizationType::symmetric);

/// Return code * scale + offset in float32, float16 or bfloat16.
ANYACCEL_API at::Tensor dequantize(const Quantized& quantized, std::int64_t groups,
                                   std::int64_t num_bits,
                                   QuantizationType type = QuantizationType::symmetric,
                                   at::ScalarType dtype = at::kHalf);

/// Quantize a tensor and reorder its groups for an all-to-all within each node followed by one
/// between nodes. Returns the codes as one row. The input's order is [node][device][slice][...],
/// for nodes * devices_per_node receivers, and the result's is [slice][device][node][...].
/// `pipeline_size`: number of slices. Used by ZeRO++ (Wang et al., arXiv:2306.10209).
ANYACCEL_API Quantized swizzle_quant(const at::Tensor& input, std::int64_t groups,
                                     std::int64_t num_bits, QuantizationType type,
                                     std::int64_t pipeline_size, std::int64_t nodes,
                                     std::int64_t devices_per_node);

/// Dequantize the results from `devices_per_node` devices, which are concatenated along the last
/// dimension, sum them in float32 and quantize the sum. `in_groups`: total number of groups in all
/// inputs. `out_groups`: number of groups in the sum.
ANYACCEL_API Quantized quantized_reduction(const Quantized& inputs, std::int64_t in_groups,
                                           std::int64_t out_groups, std::int64_t num_bits,
                                           QuantizationType type, std::int64_t devices_per_node);

/// Dequantize uint8 codes to float16 [num_group, group_size]: code / scale + min_value, rounded to
/// float16 after each operation. `scale` and `min_value` are float16, one per group.
ANYACCEL_API at::Tensor dequantize_to_half(const at::Tensor& codes, const at::Tensor& scale,
                                           const at::Tensor& min_value, std::int64_t num_group,
                                           std::int64_t group_size, std::int64_t num_bits);

}  // namespace anyaccel::ops::quantizer
