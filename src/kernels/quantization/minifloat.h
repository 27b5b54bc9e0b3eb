// Group-wise quantization to minifloats, and dequantization, on plain arrays, compiled for each
// instruction set. Independent of torch.
#pragma once

#include "kernels/quantization/minifloat_format.h"
#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// Quantization in groups of `group` elements. Group g becomes row g of `to`; a row has row_bytes()
/// bytes. The codes of a group must fill whole bytes.
struct ToFloatsJob {
  const void* from;
  Element element;
  FloatFormat format;
  std::int64_t group;
  std::uint8_t* to;
  bool stochastic;
  std::uint64_t seed;  ///< seed for stochastic rounding; the same seed produces the same codes
};
/// Quantizes the groups [begin, end).
void to_floats(Isa isa, const ToFloatsJob& job, std::int64_t begin, std::int64_t end) noexcept;

struct FromFloatsJob {
  const std::uint8_t* from;
  FloatFormat format;
  std::int64_t group;
  void* to;
  Element element;
  bool past_caches = false;  ///< use non-temporal stores; the results do not fit in the caches
};
/// Dequantizes `count` rows, starting at row `source`, and stores them as consecutive groups,
/// starting at group `group`.
void from_floats(Isa isa, const FromFloatsJob& job, std::int64_t source, std::int64_t group,
                 std::int64_t count) noexcept;

}  // namespace anyaccel::ops
