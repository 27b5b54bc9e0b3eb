// Quantization to int8 and int4, and dequantization.
#if defined(ANYACCEL_QUANTIZATION_INTEGER_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_QUANTIZATION_INTEGER_ISA_H)
#undef ANYACCEL_QUANTIZATION_INTEGER_ISA_H
#else
#define ANYACCEL_QUANTIZATION_INTEGER_ISA_H
#endif

#include "kernels/quantization/integer.h"
#include "kernels/quantization/lanes_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

#if ANYACCEL_WIDTH > 1
inline Ints load_fours(const std::int8_t* from) { return load_nibbles(from); }
inline Ints load_fours(const std::uint8_t* from) { return load_nibbles<true>(from); }
template <int bits, typename Byte>
inline Floats load_codes(const Byte* from) {
  return to_floats(bits == 8 ? load_bytes(from) : load_fours(from));
}
#endif

template <bool asymmetric>
struct Encoder {
  Encoder(const GroupScale& group, int bits)
      : minus_offset(Vec::of(-group.offset)),
        scale(Vec::of(group.scale)),
        lowest(Vec::of(bits == 8 ? -128.0F : -8.0F)),
        highest(Vec::of(bits == 8 ? 127.0F : 7.0F)) {}

  Ints operator()(Vec value) const {
    // Symmetric codes do not need to be clamped to `lowest`, because the group's largest magnitude
    // is scaled to -lowest.
    if (!asymmetric) return nearest(lesser(value * scale, highest));
    return nearest(lesser(greater((value + minus_offset) * scale, lowest), highest));
  }

  Vec minus_offset, scale, lowest, highest;
};

/// Stores the codes of `count` elements in `to`.
template <int bits, bool asymmetric, typename T>
void encode(const GroupScale& scale, const T* from, std::int64_t count, std::int8_t* to) {
  if (scale.flat) {
    __builtin_memset(to, 0, static_cast<std::size_t>(count * bits / 8));
    return;
  }
  const Encoder<asymmetric> encoder(scale, bits);
#if ANYACCEL_WIDTH == 1
  for (std::int64_t i = 0; i < count; i += 8 / bits) {
    const Ints code = encoder(Vec::load(from + i));
    *to++ = static_cast<std::int8_t>(
        bits == 8 ? code : (code & 15) << 4 | (encoder(Vec::load(from + i + 1)) & 15));
  }
#else
  each_vector(
      from,
      count, [&](Vec value, std::int64_t i, std::int64_t some) __attribute__((always_inline)) {
        std::int8_t* const place = to + i * bits / 8;
        const Ints codes = encoder(value);
        const auto store = [&](std::int8_t * there) __attribute__((always_inline)) {
          bits == 8 ? store_bytes(there, codes) : store_nibbles<true>(there, codes);
        };
        if (some == Vec::width) return store(place);
        std::int8_t rest[Vec::width];
        store(rest);
        __builtin_memcpy(place, rest, static_cast<std::size_t>(some * bits / 8));
      });
#endif
}

template <int bits, typename T>
void encode_of(bool asymmetric, const GroupScale& scale, const T* from, std::int64_t count,
               std::int8_t* to) {
  asymmetric ? encode<bits, true>(scale, from, count, to)
             : encode<bits, false>(scale, from, count, to);
}
template <typename T>
void encode_at(int bits, bool asymmetric, const GroupScale& scale, const T* from,
               std::int64_t count, std::int8_t* to) {
  bits == 8 ? encode_of<8>(asymmetric, scale, from, count, to)
            : encode_of<4>(asymmetric, scale, from, count, to);
}

void keep(const GroupScale& scale, bool asymmetric, float* params, std::int64_t group) {
  params[group * (asymmetric ? 2 : 1)] = scale.step;
  if (asymmetric) params[group * 2 + 1] = scale.offset;
}

/// Calls take(codes, i, elements) for each vector of codes. `codes` are floats, and the vector
/// begins at element i.
template <int bits, typename Byte, typename Take>
inline __attribute__((always_inline)) void each_code(const Byte* from, std::int64_t count,
                                                     const Take& take) {
#if ANYACCEL_WIDTH == 1
  for (std::int64_t i = 0; i < count; ++i) {
    const Ints byte = from[i * bits / 8];
    const Ints code = bits == 8 ? byte : i % 2 ? byte & 15 : (byte >> 4) & 15;
    take(to_floats(bits == 8 || static_cast<Byte>(-1) > 0 ? code : (code ^ 8) - 8), i,
         std::int64_t{1});
  }
#else
  std::int64_t i = 0;
  for (; i + Vec::width <= count; i += Vec::width)
    take(load_codes<bits>(from + i * bits / 8), i, std::int64_t{Vec::width});
  if (i == count) return;
  Byte rest[Vec::width] = {};
  __builtin_memcpy(rest, from + i * bits / 8, static_cast<std::size_t>((count - i) * bits / 8));
  take(load_codes<bits>(rest), i, count - i);
#endif
}

template <typename T>
inline void store_some(Vec values, T* to, std::int64_t some) {
  if (some == Vec::width) return values.store(to);
  T rest[Vec::width];
  values.store(rest);
  __builtin_memcpy(to, rest, static_cast<std::size_t>(some) * sizeof(T));
}

/// Stores a vector, bypassing the caches. The address must be aligned to the vector's size.
template <typename T>
inline __attribute__((always_inline)) void store_past(Vec values, T* to) {
#if ANYACCEL_WIDTH >= 8
  T line[Vec::width];
  values.store(line);
#if ANYACCEL_WIDTH == 16
  if constexpr (sizeof line == 64)
    return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), lanes_at<__m512i>(line));
#endif
  if constexpr (sizeof line == 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), lanes_at<__m256i>(line));
  else if constexpr (sizeof line == 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), lanes_at<__m128i>(line));
#else
  values.store(to);
#endif
}

/// Calls function(group, first, stop) for each group that intersects the elements [begin, end). The
/// intersection is [first, stop).
template <typename Function>
inline void each_group(std::int64_t group, std::int64_t begin, std::int64_t end,
                       const Function& function) {
  if (begin == end) return;  // necessary for empty groups, whose size must not be used as a divisor
  for (std::int64_t g = begin / group; begin < end; ++g) {
    const std::int64_t stop = (g + 1) * group < end ? (g + 1) * group : end;
    function(g, begin, stop);
    begin = stop;
  }
}

template <int bits, typename T>
void decode(const DequantizeJob& job, std::int64_t begin, std::int64_t end, T* to) {
  each_group(job.group, begin, end, [&](std::int64_t group, std::int64_t first, std::int64_t stop) {
    const Vec step = Vec::of(job.params[group * (job.asymmetric ? 2 : 1)]);
    const Vec offset = Vec::of(job.asymmetric ? job.params[group * 2 + 1] : 0.0F);
    T* const place = to + first;
    const bool past =
        job.past_caches && reinterpret_cast<std::uintptr_t>(place) % sizeof(T[Vec::width]) == 0;
    each_code<bits>(
        job.from + first * bits / 8, stop - first,
        [&](Floats codes, std::int64_t i, std::int64_t some) __attribute__((always_inline)) {
          const Vec values = Vec::fma(vec_of(codes), step, offset);
          if (past && some == Vec::width) return store_past(values, place + i);
          store_some(values, place + i, some);
        });
  });
#if ANYACCEL_WIDTH >= 8
  if (job.past_caches) _mm_sfence();
#endif
}

/// Sums the elements [begin, end) over all tensors and writes the sums to `sums`.
template <int bits>
void add_up(const ReduceJob& job, std::int64_t begin, std::int64_t end, float* sums) {
  const std::int64_t in_groups = job.size / job.in_group, width = job.asymmetric ? 2 : 1;
  for (std::int64_t tensor = 0; tensor < job.tensors; ++tensor) {
    const std::int8_t* const from = job.from + tensor * job.size * bits / 8;
    const float* const params = job.from_params + tensor * in_groups * width;
    each_group(
        job.in_group, begin, end, [&](std::int64_t group, std::int64_t first, std::int64_t stop) {
          const Vec step = Vec::of(params[group * width]);
          const Vec offset = Vec::of(job.asymmetric ? params[group * width + 1] : 0.0F);
          float* const to = sums + (first - begin);
          each_code<bits>(
              from + first * bits / 8, stop - first,
              [&](Floats codes, std::int64_t i, std::int64_t some) __attribute__((always_inline)) {
                Vec values = Vec::fma(vec_of(codes), step, offset);
                if (tensor > 0) {
                  float rest[Vec::width] = {};
                  __builtin_memcpy(rest, to + i, static_cast<std::size_t>(some) * sizeof(float));
                  values = Vec::load(rest) + values;
                }
                store_some(values, to + i, some);
              });
        });
  }
}

template <int bits>
void reduce(const ReduceJob& job, std::int64_t begin, std::int64_t end, float* scratch) {
  for (std::int64_t group = begin; group < end; ++group) {
    const std::int64_t first = group * job.group, stop = first + job.group;
    GroupRange range = empty_range(!job.asymmetric);
    // A group that does not fit in the scratch memory is summed twice.
    const bool fits = job.group <= reduce_scratch;
    for (std::int64_t i = first; i < stop; i += reduce_scratch) {
      const std::int64_t some = stop - i < reduce_scratch ? stop - i : reduce_scratch;
      add_up<bits>(job, i, i + some, scratch);
      const GroupRange part = job.asymmetric ? range_of<float, false>(scratch, some)
                                             : range_of<float, true>(scratch, some);
      range = joined(range, part);
    }
    const GroupScale scale = group_scale(range, bits, job.asymmetric, job.group == 0);
    keep(scale, job.asymmetric, job.params, group);
    for (std::int64_t i = first; i < stop; i += reduce_scratch) {
      const std::int64_t some = stop - i < reduce_scratch ? stop - i : reduce_scratch;
      if (!fits) add_up<bits>(job, i, i + some, scratch);
      encode_of<bits>(job.asymmetric, scale, scratch, some, job.to + i * bits / 8);
    }
  }
}

template <int bits>
void decode_half(const DequantizeHalfJob& job, std::int64_t begin, std::int64_t end) {
  each_group(job.group, begin, end, [&](std::int64_t group, std::int64_t first, std::int64_t stop) {
    Fp16 lanes[2][Vec::width];
    for (int lane = 0; lane < Vec::width; ++lane) {
      lanes[0][lane] = job.scales[group];
      lanes[1][lane] = job.least[group];
    }
    const Vec scale = Vec::load(lanes[0]), least = Vec::load(lanes[1]);
    Fp16* const to = job.to + first;
    each_code<bits>(
        job.from + first * bits / 8, stop - first,
        [&](Floats codes, std::int64_t i, std::int64_t some) __attribute__((always_inline)) {
          Fp16 quotient[Vec::width];
          (vec_of(codes) / scale).store(quotient);
          store_some(Vec::load(quotient) + least, to + i, some);
        });
  });
}

template <typename T>
GroupRange range_at(const T* from, std::int64_t count, bool magnitudes) {
  return magnitudes ? range_of<T, true>(from, count) : range_of<T, false>(from, count);
}

template <typename T>
void encode_groups(const QuantizeJob& job, std::int64_t begin, std::int64_t end, const T* from) {
  for (std::int64_t group = begin; group < end; ++group) {
    const T* const first = from + group * job.group;
    const GroupRange range = range_at(first, job.group, !job.asymmetric);
    const GroupScale scale = group_scale(range, job.bits, job.asymmetric, job.group == 0);
    const std::int64_t place = place_of(job.order, group);
    keep(scale, job.asymmetric, job.params, place);
    encode_at(job.bits, job.asymmetric, scale, first, job.group,
              job.to + place * job.group * job.bits / 8);
  }
}

/// Calls function(array), with `array` cast to its element type.
template <typename Function>
inline void with_array(Element element, const void* array, const Function& function) {
  switch (element) {
    case Element::f32: return function(static_cast<const float*>(array));
    case Element::bf16: return function(static_cast<const Bf16*>(array));
    case Element::fp16: return function(static_cast<const Fp16*>(array));
  }
}

template <typename T>
void decode_at(const DequantizeJob& job, std::int64_t begin, std::int64_t end, T* to) {
  job.bits == 8 ? decode<8>(job, begin, end, to) : decode<4>(job, begin, end, to);
}

}  // namespace

void groups_to_codes(const QuantizeJob& job, std::int64_t begin, std::int64_t end) {
  with_array(job.element, job.from,
             [&](const auto* from) { encode_groups(job, begin, end, from); });
}

GroupRange part_range(const QuantizeJob& job, std::int64_t begin, std::int64_t end) {
  GroupRange out = empty_range(!job.asymmetric);
  with_array(job.element, job.from,
             [&](const auto* from) { out = range_at(from + begin, end - begin, !job.asymmetric); });
  return out;
}

void part_to_codes(const QuantizeJob& job, const GroupScale& scale, std::int64_t group,
                   std::int64_t begin, std::int64_t end) {
  const std::int64_t place = place_of(job.order, group);
  if (begin == group * job.group) keep(scale, job.asymmetric, job.params, place);
  with_array(job.element, job.from, [&](const auto* from) {
    encode_at(job.bits, job.asymmetric, scale, from + begin, end - begin,
              job.to + (begin + (place - group) * job.group) * job.bits / 8);
  });
}

void part_to_values(const DequantizeJob& job, std::int64_t begin, std::int64_t end) {
  switch (job.element) {
    case Element::f32: return decode_at(job, begin, end, static_cast<float*>(job.to));
    case Element::bf16: return decode_at(job, begin, end, static_cast<Bf16*>(job.to));
    case Element::fp16: return decode_at(job, begin, end, static_cast<Fp16*>(job.to));
  }
}

void sums_to_codes(const ReduceJob& job, std::int64_t begin, std::int64_t end, float* scratch) {
  job.bits == 8 ? reduce<8>(job, begin, end, scratch) : reduce<4>(job, begin, end, scratch);
}

void part_to_halves(const DequantizeHalfJob& job, std::int64_t begin, std::int64_t end) {
  job.bits == 8 ? decode_half<8>(job, begin, end) : decode_half<4>(job, begin, end);
}

ANYACCEL_ISA_END
#endif
