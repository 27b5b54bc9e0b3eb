// Groups of numbers to small floats and back, over plain arrays, for each instruction set. Nothing
// here knows torch.
#pragma once

#include "kernels/quantization/minifloat_format.h"
#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Groups of `group` elements each; group g becomes the row g of `to`, row_bytes() long. A group's
/// codes are whole bytes.
struct ToFloatsJob {
  const void* from;
  Element element;
  FloatFormat format;
  std::int64_t group;
  std::uint8_t* to;
  bool stochastic;
  std::uint64_t seed;  ///< of stochastic rounding: equal seeds give equal codes
};
/// The groups [begin, end).
void to_floats(Isa isa, const ToFloatsJob& job, std::int64_t begin, std::int64_t end) noexcept;

struct FromFloatsJob {
  const std::uint8_t* from;
  FloatFormat format;
  std::int64_t group;
  void* to;
  Element element;
  bool past_caches = false;  ///< write around them: for what is larger than they are
};
/// `count` rows from the row `source` on, to the groups from `group` on.
void from_floats(Isa isa, const FromFloatsJob& job, std::int64_t source, std::int64_t group,
                 std::int64_t count) noexcept;

}  // namespace anyaccel::ops
