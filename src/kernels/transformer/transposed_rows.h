// Matrix products of a few rows with weights stored as [inputs][outputs], on plain arrays. The
// weights are read once, sequentially. Independent of torch.
#pragma once

#include <cstdint>

#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

struct TurnedProduct {
  std::int64_t rows, inputs, outputs;
  Element element;
  const void* weight;
  const float* from;  ///< [rows][inputs]
};

/// Maximum number of rows. With more rows, a general matrix product is faster.
constexpr std::int64_t max_turned_rows = 4;

/// Number of inputs per part. Parts are summed separately, so that a row's result is bitwise
/// independent of the number of threads and of other rows.
constexpr std::int64_t turned_part(std::int64_t inputs) {
  const std::int64_t least = (inputs + 63) / 64;
  return least <= 128 ? 128 : (least + 7) / 8 * 8;
}
constexpr std::int64_t turned_parts(std::int64_t inputs) {
  return (inputs + turned_part(inputs) - 1) / turned_part(inputs);
}

/// Computes part `part` of the product and writes its partial sums to sums[rows][outputs].
void multiply_turned(Isa isa, const TurnedProduct& product, std::int64_t part,
                     float* sums) noexcept;
/// Adds up the sums of all parts in order and stores them in the first part, for the outputs
/// [begin, end) of a row. The stride between parts is `apart` floats.
void add_parts(Isa isa, std::int64_t parts, std::int64_t apart, std::int64_t begin,
               std::int64_t end, float* sums) noexcept;

}  // namespace anyaccel::ops
