// Integer matrices made from floats, and floats from them, over plain arrays. Formats: `Matrix`.
// Nothing here knows torch.
#pragma once

#include "kernels/decoder/matrix.h"
#include "kernels/simd/element.h"

namespace anyaccel::ops {

/// The values of the outputs [begin, end) of an int8 or int4 matrix, row by row into `to` [end -
/// begin][inputs] of `type`: (q - zero) * scale in float32, rounded.
void widen_rows(Isa isa, const Matrix& matrix, std::int64_t begin, std::int64_t end, Element type,
                void* to) noexcept;

/// A row of `inputs` floats into groups of integers, symmetric; `bits` is 8 or 4, `scratch` has
/// room for `inputs` floats. int8: the greatest magnitude of a group becomes 127. int4: the
/// farthest value becomes -8 (as llama.cpp's Q4_0), or what a scale of 0.96, 0.92, 0.88 or 0.84 of
/// that gives where the sum of squared errors is then smaller.
void quantize_row(Isa isa, int bits, std::int64_t group, Element type, const void* from,
                  std::int64_t inputs, void* weight, float* scales, float* scratch) noexcept;

}  // namespace anyaccel::ops
