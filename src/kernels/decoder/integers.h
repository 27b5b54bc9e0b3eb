// Quantization and dequantization of matrices in the formats of `Matrix`, on plain arrays.
// Independent of torch.
#pragma once

#include "kernels/decoder/matrix.h"
#include "kernels/simd/element.h"

namespace anyaccel::ops {

/// Dequantizes the outputs [begin, end) of an int8 or int4 matrix into `to` [end - begin][inputs]
/// of type `type`. Computes (q - zero) * scale in float32 and rounds the result.
void widen_rows(Isa isa, const Matrix& matrix, std::int64_t begin, std::int64_t end, Element type,
                void* to) noexcept;

/// Quantizes a row of `inputs` elements of type `type`, using symmetric group-wise quantization.
/// `bits` is 8 or 4, and `scratch` has room for `inputs` floats.
/// - int8: maps the largest magnitude of a group to 127.
/// - int4: maps the value with the largest magnitude to -8, like llama.cpp's Q4_0. Multiplies the
///   scale by 0.96, 0.92, 0.88 or 0.84 if that reduces the sum of squared errors.
void quantize_row(Isa isa, int bits, std::int64_t group, Element type, const void* from,
                  std::int64_t inputs, void* weight, float* scales, float* scratch) noexcept;

}  // namespace anyaccel::ops
