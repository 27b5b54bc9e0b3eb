// Group-wise quantization to 8-, 12-, 6- or 4-bit floating-point formats, with one scale per group.
// The functions have the same names as in DeepSpeed's FPQuantizerBuilder. Link `anyaccel::ops`.
// docs/reference/ops.md describes the Python interface.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

/// A group is `group_size` consecutive elements. It is stored as a row: the codes, followed by the
/// scale as float32. A code consists of sign, exponent and mantissa, from the highest bit to the
/// lowest. Codes are packed upwards from the lowest bit of the first byte. The codes of a group
/// must fill whole bytes.
///
/// The total number of bits and the number of mantissa bits determine a format. All formats have
/// zeros and subnormal numbers, but no infinities and no NaN:
///
/// - 8 and 3: e4m3, largest number 480
/// - 8 and 2: e5m2, largest number 114688
/// - 12 and 7, or 4 as in DeepSpeed: e4m7, largest number 510
/// - 6 and 2: e3m2, largest number 28
/// - 4 and 1: e2m1, largest number 6
///
/// The first call of a function loads the op, building it first if necessary, and throws
/// `build_failed` or `unavailable` if that fails. Invalid arguments throw `invalid_argument`; the
/// tensors are then unchanged. Threads may call the functions concurrently with different output
/// tensors.
namespace anyaccel::ops::fp_quantizer {

/// Size of a group's row in bytes: codes and scale.
constexpr std::int64_t row_bytes(std::int64_t group_size, std::int64_t q_bits) {
  return group_size * q_bits / 8 + 4;
}

/// Quantize `val` into `out`, one row per group.
///
/// - out: uint8, row_bytes() for each group.
/// - val: float32, bfloat16 or float16. The number of elements must be a multiple of `group_size`.
/// - stochastic_rounding: round up or down with a probability that depends on the distance. The
///   same `seed` gives the same codes. False: round to nearest, with ties away from 0, or to even
///   for subnormal numbers.
///
/// The scale maps the largest magnitude of a group to the format's largest number. A group with a
/// NaN or an infinity dequantizes to NaN.
ANYACCEL_API void quantize(const at::Tensor& out, const at::Tensor& val, std::int64_t group_size,
                           bool stochastic_rounding, std::int64_t q_bits,
                           std::int64_t q_mantisa_bits, std::int64_t seed = 0);

/// Dequantize rows into `val`, which is float32, bfloat16 or float16.
ANYACCEL_API void dequantize(const at::Tensor& val, const at::Tensor& val_q,
                             std::int64_t group_size, std::int64_t q_mantisa_bits,
                             std::int64_t q_exponent_bits);

/// Dequantize selected slices of `val_q` into `val`. Slice i of `val`, along the first dimension,
/// receives the slice of the quantized tensor that `indexes[i]` (int32 or int64) selects. For host
/// tensors, an out-of-range index throws `invalid_argument`. On CUDA, the host does not read the
/// indices, and an out-of-range index fills its slice with NaN.
ANYACCEL_API void selective_dequantize(const at::Tensor& val, const at::Tensor& val_q,
                                       const at::Tensor& indexes, std::int64_t group_size,
                                       std::int64_t q_mantisa_bits, std::int64_t q_exponent_bits);

}  // namespace anyaccel::ops::fp_quantizer
