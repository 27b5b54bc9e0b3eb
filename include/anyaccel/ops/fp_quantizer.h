// Floats of 8, 12, 6 or 4 bits for groups of numbers, with a step for each group: what DeepSpeed's
// FPQuantizerBuilder has, under its names. Link `anyaccel::ops`. docs/reference/ops.md has the
// Python side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "anyaccel/export.h"

/// A group of `group_size` successive elements is a row of bytes: its codes (sign, exponent,
/// mantissa from the upper bit down), one behind the other from the lowest bit of the first byte
/// upwards, then its step, a float32. `group_size` codes are whole bytes. Formats are given by all
/// bits and those of the mantissa: 8 with 3 (e4m3, to 480), 8 with 2 (e5m2, to 114688), 12 with 7
/// or, as DeepSpeed has it, 4 (e4m7, to 510), 6 with 2 (e3m2, to 28), 4 with 1 (e2m1, to 6). They
/// have zeros and numbers below the least normal one, no infinities and no NaN.
///
/// All functions: the first call loads the op, which may compile it: `build_failed` or
/// `unavailable` when that cannot be. What does not fit is `invalid_argument`; then nothing was
/// changed. Threads may call at once, for different results.
namespace anyaccel::ops::fp_quantizer {

/// Bytes of a group's row.
constexpr std::int64_t row_bytes(std::int64_t group_size, std::int64_t q_bits) {
  return group_size * q_bits / 8 + 4;
}

/// Fills `out`, uint8 with row_bytes() for each group, from `val`, float32, bfloat16 or float16: a
/// group's greatest magnitude becomes the format's greatest number. Others become the nearest,
/// halves away from 0, below the least normal number to even; with `stochastic_rounding` the next
/// one above or below, as often as it is near: the same seed gives the same codes. A group with a
/// NaN or an infinity is read back as NaN.
ANYACCEL_API void quantize(const at::Tensor& out, const at::Tensor& val, std::int64_t group_size,
                           bool stochastic_rounding, std::int64_t q_bits,
                           std::int64_t q_mantisa_bits, std::int64_t seed = 0);

/// Fills `val`, float32, bfloat16 or float16, from rows.
ANYACCEL_API void dequantize(const at::Tensor& val, const at::Tensor& val_q,
                             std::int64_t group_size, std::int64_t q_mantisa_bits,
                             std::int64_t q_exponent_bits);

/// Fills `val` from parts of what `val_q` stands for: part i of the first dimension is the one that
/// `indexes`, int32 or int64, names. An index that is out of range is `invalid_argument` on host
/// memory, and gives NaN on CUDA, where only the device knows it.
ANYACCEL_API void selective_dequantize(const at::Tensor& val, const at::Tensor& val_q,
                                       const at::Tensor& indexes, std::int64_t group_size,
                                       std::int64_t q_mantisa_bits, std::int64_t q_exponent_bits);

}  // namespace anyaccel::ops::fp_quantizer
