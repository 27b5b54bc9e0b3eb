// Products of few rows with weights that lie as [inputs][outputs], over plain arrays: the weights
// are read once, on and on. Nothing here knows torch.
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

/// More rows than these take longer than a general product.
constexpr std::int64_t max_turned_rows = 4;

/// Inputs whose sums are made apart, so that a row's bits depend neither on threads nor on the rows
/// beside it.
constexpr std::int64_t turned_part(std::int64_t inputs) {
  const std::int64_t least = (inputs + 63) / 64;
  return least <= 128 ? 128 : (least + 7) / 8 * 8;
}
constexpr std::int64_t turned_parts(std::int64_t inputs) {
  return (inputs + turned_part(inputs) - 1) / turned_part(inputs);
}

/// sums[rows][outputs] of part `part`.
void multiply_turned(Isa isa, const TurnedProduct& product, std::int64_t part,
                     float* sums) noexcept;
/// The outputs [begin, end) of a row: its parts' sums, `apart` floats from one to the next, added
/// up in their order into the first.
void add_parts(Isa isa, std::int64_t parts, std::int64_t apart, std::int64_t begin,
               std::int64_t end, float* sums) noexcept;

}  // namespace anyaccel::ops
