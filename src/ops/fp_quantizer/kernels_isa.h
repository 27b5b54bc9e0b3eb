// Small floats for one instruction set; see ops/support/each_isa.h.
namespace {

#include "ops/support/quantize/lanes_isa.h"

/// Elements that are packed together: whole bytes in every format, whole vectors in every instruction set.
constexpr int piece = 64;

inline Words mixed(Words x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}
inline Words places() {
  std::uint32_t out[Vec::width];
  for (int lane = 0; lane < Vec::width; ++lane) out[lane] = static_cast<std::uint32_t>(lane);
  Words lanes;
  __builtin_memcpy(&lanes, out, sizeof lanes);
  return lanes;
}

/// Of numbers below the least normal one: whole steps, and one more where the rest is more than a random limit.
template <int format>
inline __attribute__((always_inline)) Ints small_codes_of(Ints size, Words random) {
  constexpr FloatFormat f = float_formats[format];
  const Vec limit = Vec::of(1.0F) + vec_of(to_floats(as<Ints>(random >> 16))) * Vec::of(-0x1p-16F);
  // Held below what the other way has, so that every lane is a whole number.
  const Vec steps = lesser(vec_of(as<Floats>(size)) * Vec::of(small_steps_of(f)), Vec::of(power_of_2(f.mantissa + 1)));
  const Ints whole = to_ints(steps);
  const Vec rest = steps + vec_of(to_floats(whole)) * Vec::of(-1.0F);
  return whole + (rest.x >= limit.x ? all(1) : all(0));
}

/// float_code_of() for a vector.
template <int format, bool stochastic>
inline __attribute__((always_inline)) Ints codes_of(Vec y, std::uint64_t key, std::uint32_t place) {
  constexpr FloatFormat f = float_formats[format];
  const Ints bits = lane_bits(y), size = bits & sign_mask;
  const Ints sign = (bits >> (32 - f.bits)) & (1 << (f.bits - 1));
  if (stochastic) {
    const Words random =
        mixed(mixed(places() + (place + static_cast<std::uint32_t>(key))) ^ static_cast<std::uint32_t>(key >> 32));
    const Ints normal = ((size + as<Ints>(random >> (9 + f.mantissa))) >> lost_bits_of(f)) - rebias_of(f);
    const Ints code = size < least_normal_of(f) ? small_codes_of<format>(size, random) : normal;
    return lesser(code, all(size_mask_of(f))) | sign;
  }
  const Ints normal = ((size + (1 << (lost_bits_of(f) - 1))) >> lost_bits_of(f)) - rebias_of(f);
  const Vec shift = Vec::of(small_shift_of(f));
  const Ints small = lane_bits(vec_of(as<Floats>(size)) + shift) - lane_bits(shift);
  return (size < least_normal_of(f) ? small : normal) | sign;
}

/// float_of_code() for a vector; codes have no bits above theirs.
template <int format>
inline __attribute__((always_inline)) Vec numbers_of(Ints code) {
  constexpr FloatFormat f = float_formats[format];
  const Ints size = code & size_mask_of(f);
  const Ints normal = (size << lost_bits_of(f)) + ((127 - bias_of(f)) << 23);
  const Ints small = lane_bits(vec_of(to_floats(size)) * Vec::of(1 / small_steps_of(f)));
  const Ints sign = as<Ints>(as<Words>(code >> (f.bits - 1)) << 31);
  return vec_of(as<Floats>((size < (1 << f.mantissa) ? small : normal) | sign));
}

#if ANYACCEL_WIDTH == 1
using Longs = std::uint64_t;
#else
typedef std::uint64_t Longs __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
#endif

/// The lowest `full` bits of each field of `field` bits.
constexpr std::uint64_t low_bits(int field, int full) {
  std::uint64_t out = 0;
  for (int at = 0; at < 64; at += field) out |= ((std::uint64_t{1} << full) - 1) << at;
  return out;
}

/// Neighbours are brought together in steps: fields of `field` bits hold `full` each, then fields twice as wide twice as many.
template <int field, int full>
inline Longs packed(Longs w) {
  if constexpr (field == 64) {
    return w;
  } else {
    constexpr std::uint64_t low = low_bits(2 * field, full);
    return packed<2 * field, 2 * full>((w & low) | ((w >> (field - full)) & (low << full)));
  }
}
template <int field, int full>
inline Longs unpacked(Longs w) {
  if constexpr (field == 64) {
    return w;
  } else {
    constexpr std::uint64_t low = low_bits(2 * field, full);
    const Longs wide = unpacked<2 * field, 2 * full>(w);
    return (wide & low) | ((wide & (low << full)) << (field - full));
  }
}

/// The codes of a piece, one a byte, or one in two bytes where there are more than 8 bits.
template <int bits>
struct Codes {
  static constexpr int in_word = bits > 8 ? 4 : 8;  ///< codes of a 64-bit word
  static constexpr int words = piece / in_word;
  static constexpr int packed_bytes = in_word * bits / 8;  ///< of a word
  static constexpr int width = 64 / in_word;               ///< bits that a code takes here
  alignas(64) std::uint64_t word[words];

  void set(int i, Ints codes) {
    auto* const place = reinterpret_cast<char*>(word) + i * width / 8;
    width == 8 ? store_bytes(reinterpret_cast<std::int8_t*>(place), codes)
               : store_shorts(reinterpret_cast<std::int16_t*>(place), codes);
  }
  Ints get(int i) const {
    const auto* const place = reinterpret_cast<const char*>(word) + i * width / 8;
    return width == 8 ? load_bytes(reinterpret_cast<const std::uint8_t*>(place))
                      : load_shorts(reinterpret_cast<const std::int16_t*>(place));
  }

  void pack() {
    each_long([](Longs & w) __attribute__((always_inline)) { w = packed<width, bits>(w); });
  }
  void unpack() {
    each_long([](Longs & w) __attribute__((always_inline)) { w = unpacked<width, bits>(w); });
  }

 private:
  template <typename Function>
  void each_long(const Function& function) {
    for (int i = 0; i < words; i += static_cast<int>(sizeof(Longs) / 8)) {
      Longs w;
      __builtin_memcpy(&w, word + i, sizeof w);
      function(w);
      __builtin_memcpy(word + i, &w, sizeof w);
    }
  }
};

/// Bytes of a piece, and those that store_packed() writes and load_packed() reads behind it: a row has its step there.
template <int bits>
constexpr int packed_piece = piece* bits / 8 + 2;

#if ANYACCEL_WIDTH > 1
template <int bits>
inline void put_codes(std::int8_t* to, Ints codes) {
  bits == 8 ? store_bytes(to, codes) : store_nibbles<false>(to, codes);
}
template <int bits>
inline Ints get_codes(const std::uint8_t* from) {
  return bits == 8 ? load_bytes(from) : load_nibbles<false>(from);
}
#else
template <int bits>
inline void put_codes(std::int8_t* to, Ints codes) {
  store_bytes(to, codes);
}
template <int bits>
inline Ints get_codes(const std::uint8_t* from) {
  return load_bytes(from);
}
#endif

template <int bits>
inline void store_packed(Codes<bits>& codes, std::uint8_t* to) {
  codes.pack();
  constexpr int bytes = codes.packed_bytes == 6 ? 8 : codes.packed_bytes;  // the next word's take the place of two
  for (int i = 0; i < codes.words; ++i) __builtin_memcpy(to + i * codes.packed_bytes, &codes.word[i], bytes);
}

template <int bits>
inline void load_packed(const std::uint8_t* from, Codes<bits>& codes) {
  constexpr int bytes = codes.packed_bytes == 6 ? 8 : codes.packed_bytes;
  for (int i = 0; i < codes.words; ++i) {
    codes.word[i] = 0;
    __builtin_memcpy(&codes.word[i], from + i * codes.packed_bytes, bytes);
  }
  codes.unpack();
}

/// Whether codes are brought into place a vector at a time.
template <int bits>
constexpr bool at_once = bits == 8 || (bits == 4 && Vec::width > 1);

template <int format, bool stochastic, typename T>
inline void encode_piece(const T* from, float factor, std::uint64_t key, std::uint32_t place, std::uint8_t* to) {
  constexpr int bits = float_formats[format].bits;
  const auto each = [&](const auto& put) __attribute__((always_inline)) {
    for (int i = 0; i < piece; i += Vec::width)
      put(i, codes_of<format, stochastic>(Vec::load(from + i) * Vec::of(factor), key,
                                          place + static_cast<std::uint32_t>(i)));
  };
  if constexpr (at_once<bits>) {
    each([&](int i, const Ints& codes) __attribute__((always_inline)) {
      put_codes<bits>(reinterpret_cast<std::int8_t*>(to) + i * bits / 8, codes);
    });
  } else {
    Codes<bits> packing;
    each([&](int i, const Ints& codes) __attribute__((always_inline)) { packing.set(i, codes); });
    store_packed<bits>(packing, to);
  }
}

template <int format, typename T>
inline void decode_piece(const std::uint8_t* from, Vec step, T* to) {
  constexpr int bits = float_formats[format].bits;
  if constexpr (at_once<bits>) {
    for (int i = 0; i < piece; i += Vec::width)
      (numbers_of<format>(get_codes<bits>(from + i * bits / 8)) * step).store(to + i);
  } else {
    Codes<bits> packing;
    load_packed<bits>(from, packing);
    for (int i = 0; i < piece; i += Vec::width) (numbers_of<format>(packing.get(i)) * step).store(to + i);
  }
}

template <int format, bool stochastic, typename T>
void encode_group(const T* from, std::int64_t group, float factor, std::uint64_t key, std::uint8_t* to) {
  constexpr int bits = float_formats[format].bits;
  std::int64_t i = 0;
  for (; i + piece <= group; i += piece)
    encode_piece<format, stochastic>(from + i, factor, key, static_cast<std::uint32_t>(i), to + i * bits / 8);
  if (i == group) return;
  T rest[piece];
  __builtin_memset(rest, 0, sizeof rest);
  __builtin_memcpy(rest, from + i, static_cast<std::size_t>(group - i) * sizeof(T));
  std::uint8_t bytes[packed_piece<bits>];
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
    const FloatScale scale = float_scale(range_of<T, true>(first, job.group).high, greatest_of(f));
    if (scale.flat)
      __builtin_memset(row, 0, static_cast<std::size_t>(bytes - 4));
    else if (job.stochastic)
      encode_group<format, true>(first, job.group, scale.factor, group_key(job.seed, group), row);
    else
      encode_group<format, false>(first, job.group, scale.factor, 0, row);
    __builtin_memcpy(row + bytes - 4, &scale.step, 4);
  }
}

template <int format, typename T>
void decode_rows(const FromFloatsJob& job, std::int64_t source, std::int64_t group, std::int64_t count, T* to) {
  constexpr FloatFormat f = float_formats[format];
  const std::int64_t bytes = row_bytes(f, job.group);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::uint8_t* const from = job.from + (source + row) * bytes;
    T* const first = to + (group + row) * job.group;
    float step;
    __builtin_memcpy(&step, from + bytes - 4, 4);
    std::int64_t i = 0;
    for (; i + piece <= job.group; i += piece) decode_piece<format>(from + i * f.bits / 8, Vec::of(step), first + i);
    if (i == job.group) continue;
    std::uint8_t last[packed_piece<f.bits>] = {};
    __builtin_memcpy(last, from + i * f.bits / 8, static_cast<std::size_t>((job.group - i) * f.bits / 8));
    T rest[piece];
    decode_piece<format>(last, Vec::of(step), rest);
    __builtin_memcpy(first + i, rest, static_cast<std::size_t>(job.group - i) * sizeof(T));
  }
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
void decode_of_type(const FromFloatsJob& job, std::int64_t source, std::int64_t group, std::int64_t count) {
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

void rows_to_groups(const FromFloatsJob& job, std::int64_t source, std::int64_t group, std::int64_t count) {
  switch (job.element) {
    case Element::f32: return decode_of_type<float>(job, source, group, count);
    case Element::bf16: return decode_of_type<Bf16>(job, source, group, count);
    case Element::fp16: return decode_of_type<Fp16>(job, source, group, count);
  }
}
