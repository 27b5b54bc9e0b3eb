// Quantization of groups to int8 or int4 and back, over plain arrays, for each instruction set.
// Independent of torch.
//
// Two int4 codes share a byte, with the first one in the upper four bits; groups then have an even
// number of elements. A group's parameters are its step, followed by its offset if asymmetric.
#pragma once

#include "kernels/quantization/scales.h"
#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// `from` has groups of `group` elements. The codes of group g go to group place_of(order, g) of
/// `to`, and its parameters to the same place in `params`.
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
/// Quantizes the groups [begin, end).
void quantize_groups(Isa isa, const QuantizeJob& job, std::int64_t begin,
                     std::int64_t end) noexcept;
/// These two functions quantize one group in parts, possibly on several threads. range_of_part()
/// returns the range of the elements [begin, end), counted over all groups.
GroupRange range_of_part(Isa isa, const QuantizeJob& job, std::int64_t begin,
                         std::int64_t end) noexcept;
/// quantize_part() stores the codes of these elements at the place of `group`. For int4, begin and
/// end are even.
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
  bool past_caches;  ///< bypass the caches; for results that do not fit in them
};
/// Dequantizes the elements [begin, end); for int4, both are even.
void dequantize_part(Isa isa, const DequantizeJob& job, std::int64_t begin,
                     std::int64_t end) noexcept;

/// Adds `tensors` consecutive quantized tensors of `size` elements, in groups of `in_group`, and
/// quantizes the sums in groups of `group`. The sums are float, in the order of the tensors.
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
/// Scratch memory of reduce_groups(), in floats.
constexpr std::int64_t reduce_scratch = 16384;
void reduce_groups(Isa isa, const ReduceJob& job, std::int64_t begin, std::int64_t end,
                   float* scratch) noexcept;

/// Unsigned codes, with int4 packed as above, are dequantized to half(half(code / scale) + min).
/// Each group has a scale and a minimum (`least`).
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
