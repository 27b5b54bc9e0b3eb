// Groups of numbers to int8 or int4 and back, over plain arrays, for each instruction set. Nothing
// here knows torch.
//
// int4 are two to a byte, the first of a pair in the upper four bits; groups then have an even
// number of elements. A group's parameters are its step and, when asymmetric, its offset behind it.
#pragma once

#include "kernels/quantization/scales.h"
#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// `from` has groups of `group` elements each; the codes of group g go to place_of(order, g) of
/// `to`, its parameters to that of `params`.
struct QuantizeJob {
  const void* from;
  Element element;
  int bits;
  bool asymmetric;
  std::int64_t group;
  std::int8_t* to;
  float* params;
  GroupOrder order;
};
/// The groups [begin, end).
void quantize_groups(Isa isa, const QuantizeJob& job, std::int64_t begin,
                     std::int64_t end) noexcept;
/// The same of one group in parts, which may be on several threads: the range of the elements
/// [begin, end) of all, ...
GroupRange range_of_part(Isa isa, const QuantizeJob& job, std::int64_t begin,
                         std::int64_t end) noexcept;
/// ... and their codes, to where those of `group` go. For int4 begin and end are even.
void quantize_part(Isa isa, const QuantizeJob& job, const GroupScale& scale, std::int64_t group,
                   std::int64_t begin, std::int64_t end) noexcept;

struct DequantizeJob {
  const std::int8_t* from;
  int bits;
  bool asymmetric;
  const float* params;
  std::int64_t group;
  void* to;
  Element element;
  bool past_caches;  ///< write around them: for what is larger than they are
};
/// The elements [begin, end); for int4 both are even.
void dequantize_part(Isa isa, const DequantizeJob& job, std::int64_t begin,
                     std::int64_t end) noexcept;

/// `tensors` quantized tensors of `size` elements, one behind the other, in groups of `in_group`,
/// are added up and quantized again in groups of `group`. The sums are float, in the order of the
/// tensors.
struct ReduceJob {
  const std::int8_t* from;
  const float* from_params;
  std::int64_t tensors, size, in_group;
  int bits;
  bool asymmetric;
  std::int64_t group;
  std::int8_t* to;
  float* params;
};
/// Sums that a call of reduce_groups() needs room for.
constexpr std::int64_t reduce_scratch = 16384;
void reduce_groups(Isa isa, const ReduceJob& job, std::int64_t begin, std::int64_t end,
                   float* scratch) noexcept;

/// Codes from 0 upwards, int4 as above: half(half(code / scale) + min), of a scale and a least
/// value for each group.
struct DequantizeHalfJob {
  const std::uint8_t* from;
  int bits;
  const Fp16* scales;
  const Fp16* least;
  std::int64_t group;
  Fp16* to;
};
void dequantize_half_part(Isa isa, const DequantizeHalfJob& job, std::int64_t begin,
                          std::int64_t end) noexcept;

}  // namespace anyaccel::ops
