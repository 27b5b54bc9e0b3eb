// Quantization to minifloats, and dequantization.
#if defined(ANYACCEL_QUANTIZATION_MINIFLOAT_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_QUANTIZATION_MINIFLOAT_ISA_H)
#undef ANYACCEL_QUANTIZATION_MINIFLOAT_ISA_H
#else
#define ANYACCEL_QUANTIZATION_MINIFLOAT_ISA_H
#endif

#include "kernels/quantization/minifloat.h"
#include "kernels/quantization/minifloat_lanes_isa.h"
#include "kernels/quantization/minifloat_packing_isa.h"
#include "kernels/simd/vec.h"
#if ANYACCEL_WIDTH == 16
#include "kernels/quantization/minifloat_codes_isa.h"
#endif

ANYACCEL_ISA_BEGIN
namespace {

template <int format, bool stochastic, typename T>
inline void encode_piece(const T* from, float factor, std::uint64_t key, std::uint32_t place,
                         std::uint8_t* to) {
#if ANYACCEL_WIDTH == 16
  if constexpr (!stochastic) return encode_words<format>(from, factor, to);
#endif
  pack_piece<float_formats[format].bits>(
      to, [&](int i) __attribute__((always_inline)) {
        const Vec y = Vec::load(from + i) * Vec::of(factor);
        return codes_of<format, stochastic>(y, key, place + static_cast<std::uint32_t>(i));
      });
}

template <int format, typename T>
inline void decode_piece(const std::uint8_t* from, Vec step, T* to) {
  unpack_piece<float_formats[format].bits>(
      from, [&](int i, const Ints& codes) __attribute__((always_inline)) {
        (numbers_of<format>(codes) * step).store(to + i);
      });
}

template <int bits>
constexpr int piece_bytes = piece* bits / 8 + beyond;

/// Prefetches the data that encode_group() will read 2 KiB later. Groups are read twice. The second
/// pass reads from the caches, so without prefetching, it would leave the memory bandwidth unused.
/// The address may be past the end of the array.
inline void ask_ahead(const void* from, std::size_t bytes) {
  constexpr std::uintptr_t ahead = 2048, line = 64;
  for (std::size_t i = 0; i < bytes; i += line)
    __builtin_prefetch(
        reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + ahead + i));
}

template <int format, bool stochastic, typename T>
void encode_group(const T* from, std::int64_t group, float factor, std::uint64_t key,
                  std::uint8_t* to) {
  constexpr int bits = float_formats[format].bits;
  std::int64_t i = 0;
  for (; i + piece <= group; i += piece) {
    ask_ahead(from + i, piece * sizeof(T));
    encode_piece<format, stochastic>(from + i, factor, key, static_cast<std::uint32_t>(i),
                                     to + i * bits / 8);
  }
  if (i == group) return;
  T rest[piece];
  __builtin_memset(rest, 0, sizeof rest);
  __builtin_memcpy(rest, from + i, static_cast<std::size_t>(group - i) * sizeof(T));
  std::uint8_t bytes[piece_bytes<bits>];
  encode_piece<format, stochastic>(rest, factor, key, static_cast<std::uint32_t>(i), bytes);
  __builtin_memcpy(to + i * bits / 8, bytes, static_cast<std::size_t>((group - i) * bits / 8));
}

template <int format, typename T>
void encode_groups(const ToFloatsJob& job, std::int64_t begin, std::int64_t end, const T* from) {
  constexpr FloatFormat f = float_formats[format];
  const std::int64_t bytes = row_bytes(f, job.group);
  for (std::int64_t group = begin; group < end; ++group) {
    const T* const first = from + group * job.group;
    std::uint8_t* const row = job.to + group * bytes;
    const FloatScale scale = float_scale(abs_max(first, job.group), greatest_of(f));
    if (scale.flat)
      __builtin_memset(row, 0, static_cast<std::size_t>(bytes - 4));
    else if (job.stochastic)
      encode_group<format, true>(first, job.group, scale.factor, group_key(job.seed, group), row);
    else
      encode_group<format, false>(first, job.group, scale.factor, 0, row);
    __builtin_memcpy(row + bytes - 4, &scale.step, 4);
  }
}

/// Calls decode(codes, elements) for each block of 64 codes in a row.
template <int bits, typename T, typename Decode>
inline void decode_row(const std::uint8_t* from, std::int64_t group, T* to, const Decode& decode) {
  std::int64_t i = 0;
  for (; i + piece <= group; i += piece) decode(from + i * bits / 8, to + i);
  if (i == group) return;
  std::uint8_t last[piece_bytes<bits>] = {};
  __builtin_memcpy(last, from + i * bits / 8, static_cast<std::size_t>((group - i) * bits / 8));
  alignas(64) T rest[piece];
  decode(last, rest);
  __builtin_memcpy(to + i, rest, static_cast<std::size_t>(group - i) * sizeof(T));
}

template <int format, typename T>
void decode_rows(const FromFloatsJob& job, std::int64_t source, std::int64_t group,
                 std::int64_t count, T* to) {
  constexpr FloatFormat f = float_formats[format];
  const std::int64_t bytes = row_bytes(f, job.group);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::uint8_t* const from = job.from + (source + row) * bytes;
    T* const first = to + (group + row) * job.group;
    float step;
    __builtin_memcpy(&step, from + bytes - 4, 4);
#if ANYACCEL_WIDTH == 16
    if constexpr (decodes_words<format>)
      if (step - step == 0) {
        const WordDecoder<format, T> words(step);
        const bool past = job.past_caches && reinterpret_cast<std::uintptr_t>(first) % 64 == 0;
        decode_row<f.bits>(
            from, job.group,
            first, [&](const std::uint8_t* codes, T* numbers) __attribute__((always_inline)) {
              past ? words.template piece<true>(codes, numbers)
                   : words.template piece<false>(codes, numbers);
            });
        continue;
      }
#endif
    decode_row<f.bits>(
        from, job.group,
        first, [&](const std::uint8_t* codes, T* numbers) __attribute__((always_inline)) {
          decode_piece<format>(codes, Vec::of(step), numbers);
        });
  }
#if ANYACCEL_WIDTH == 16
  if (job.past_caches) _mm_sfence();
#endif
}

template <typename T>
void encode_of_type(const ToFloatsJob& job, std::int64_t begin, std::int64_t end) {
  const T* const from = static_cast<const T*>(job.from);
  switch (job.format.bits) {
    case 4: return encode_groups<4>(job, begin, end, from);
    case 6: return encode_groups<3>(job, begin, end, from);
    case 12: return encode_groups<2>(job, begin, end, from);
    default:
      return job.format.mantissa == 3 ? encode_groups<0>(job, begin, end, from)
                                      : encode_groups<1>(job, begin, end, from);
  }
}

template <typename T>
void decode_of_type(const FromFloatsJob& job, std::int64_t source, std::int64_t group,
                    std::int64_t count) {
  T* const to = static_cast<T*>(job.to);
  switch (job.format.bits) {
    case 4: return decode_rows<4>(job, source, group, count, to);
    case 6: return decode_rows<3>(job, source, group, count, to);
    case 12: return decode_rows<2>(job, source, group, count, to);
    default:
      return job.format.mantissa == 3 ? decode_rows<0>(job, source, group, count, to)
                                      : decode_rows<1>(job, source, group, count, to);
  }
}

}  // namespace

void groups_to_rows(const ToFloatsJob& job, std::int64_t begin, std::int64_t end) {
  switch (job.element) {
    case Element::f32: return encode_of_type<float>(job, begin, end);
    case Element::bf16: return encode_of_type<Bf16>(job, begin, end);
    case Element::fp16: return encode_of_type<Fp16>(job, begin, end);
  }
}

void rows_to_groups(const FromFloatsJob& job, std::int64_t source, std::int64_t group,
                    std::int64_t count) {
  switch (job.element) {
    case Element::f32: return decode_of_type<float>(job, source, group, count);
    case Element::bf16: return decode_of_type<Bf16>(job, source, group, count);
    case Element::fp16: return decode_of_type<Fp16>(job, source, group, count);
  }
}

ANYACCEL_ISA_END
#endif
