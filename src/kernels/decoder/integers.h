// Quantization and dequantization of matrices over plain arrays, in the formats of `Matrix`.
// Independent of torch.
#pragma once

#include "kernels/decoder/matrix.h"
#include "kernels/simd/element.h"

namespace anyaccel::ops {

/// Dequantizes the outputs [begin, end) of an int8 or int4 matrix to `to` [end - begin][inputs] of
/// `type`: (q - zero) * scale in float32, rounded.
void widen_rows(Isa isa, const Matrix& matrix, std::int64_t begin, std::int64_t end, Element type,
                void* to) noexcept;

/// Quantizes a row of `inputs` floats symmetrically in groups. `bits` is 8 or 4; `scratch` has room
/// for `inputs` floats. int8 maps the largest magnitude of a group to 127. int4 maps the value with
/// the largest magnitude to -8 (like llama.cpp's Q4_0), or multiplies that scale by 0.96, 0.92,
/// 0.88 or 0.84 if this gives a smaller sum of squared errors.
void quantize_row(Isa isa, int bits, std::int64_t group, Element type, const void* from,
                  std::int64_t inputs, void* weight, float* scales, float* scratch) noexcept;

}  // namespace anyaccel::ops
