// Group-wise quantization to int8 or int4, and dequantization, on plain arrays, compiled for each
// instruction set. Independent of torch.
//
// A byte holds two int4 codes, the first one in its upper four bits, so groups must have an even
// number of elements. A group's parameters are its step size and, if the quantization is
// asymmetric, its offset.
#pragma once

#include "kernels/quantization/scales.h"
#include "kernels/simd/element.h"
#include "kernels/simd/isa.h"

namespace anyaccel::ops {

/// `from` consists of groups of `group` elements. The codes of group g are stored as group
/// place_of(order, g) of `to`, and its parameters at the same place in `params`.
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
/// This function and quantize_part() quantize one group in parts, possibly on several threads.
/// range_of_part() returns the minimum and maximum of the elements [begin, end), whose indices
/// count from the start of `from`.
GroupRange range_of_part(Isa isa, const QuantizeJob& job, std::int64_t begin,
                         std::int64_t end) noexcept;
/// Quantizes the elements [begin, end) and stores their codes at the position of `group` in the
/// output. For int4, `begin` and `end` are even.
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
  bool past_caches;  ///< use non-temporal stores, because the results do not fit in the caches
};
/// Dequantizes the elements [begin, end). For int4, `begin` and `end` are even.
void dequantize_part(Isa isa, const DequantizeJob& job, std::int64_t begin,
                     std::int64_t end) noexcept;

/// The input consists of `tensors` consecutive quantized tensors, each with `size` elements in
/// groups of `in_group` elements. Sums them elementwise in float, in the order of the tensors, and
/// quantizes the sums in groups of `group` elements.
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
/// Size of the scratch memory that reduce_groups() needs, in floats.
constexpr std::int64_t reduce_scratch = 16384;
void reduce_groups(Isa isa, const ReduceJob& job, std::int64_t begin, std::int64_t end,
                   float* scratch) noexcept;

/// Dequantizes unsigned codes to fp16(fp16(code / scale) + least). int4 codes are packed as
/// described above. Each group has a scale and a minimum (`least`).
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
