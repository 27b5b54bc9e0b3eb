// Whole numbers beside `Vec`, as many as it is wide, and ranges of arrays. Included by kernels inside of an unnamed namespace,
// under a target, after ops/support/quantize/range.h.
//
// Vectors are the compiler's own (vector_size), which GCC and Clang know on every processor; a Vec of width 1 has plain numbers.
template <typename To, typename From>
inline To as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  __builtin_memcpy(&out, &from, sizeof out);
  return out;
}

#if ANYACCEL_WIDTH == 1
using Ints = std::int32_t;
using Words = std::uint32_t;
using Floats = float;
inline Ints load_bytes(const std::int8_t* from) { return *from; }
inline Ints load_bytes(const std::uint8_t* from) { return *from; }
inline void store_bytes(std::int8_t* to, Ints lanes) { *to = static_cast<std::int8_t>(lanes); }
inline void store_shorts(std::int16_t* to, Ints lanes) { *to = static_cast<std::int16_t>(lanes); }
inline Ints load_shorts(const std::int16_t* from) { return static_cast<std::uint16_t>(*from); }
inline Floats to_floats(Ints lanes) { return static_cast<float>(lanes); }
/// Towards 0.
inline Ints to_ints(Vec lanes) { return static_cast<Ints>(lanes.x); }
#else
typedef std::int32_t Ints __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef std::uint32_t Words __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef float Floats __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
typedef std::int8_t Bytes __attribute__((vector_size(ANYACCEL_WIDTH)));
typedef std::uint8_t BytesWithoutSign __attribute__((vector_size(ANYACCEL_WIDTH)));
typedef std::int16_t Shorts __attribute__((vector_size(2 * ANYACCEL_WIDTH)));
typedef std::uint16_t ShortsWithoutSign __attribute__((vector_size(2 * ANYACCEL_WIDTH)));
template <typename Lanes, typename From>
inline Lanes lanes_at(const From* from) {
  Lanes out;
  __builtin_memcpy(&out, from, sizeof out);
  return out;
}
inline Ints load_bytes(const std::int8_t* from) { return __builtin_convertvector(lanes_at<Bytes>(from), Ints); }
inline Ints load_bytes(const std::uint8_t* from) {
  return __builtin_convertvector(lanes_at<BytesWithoutSign>(from), Ints);
}
inline void store_bytes(std::int8_t* to, Ints lanes) {
  const Bytes bytes = __builtin_convertvector(lanes, Bytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}
inline void store_shorts(std::int16_t* to, Ints lanes) {
  const Shorts shorts = __builtin_convertvector(lanes, Shorts);
  __builtin_memcpy(to, &shorts, sizeof shorts);
}
inline Ints load_shorts(const std::int16_t* from) {
  return __builtin_convertvector(lanes_at<ShortsWithoutSign>(from), Ints);
}
inline Floats to_floats(Ints lanes) { return __builtin_convertvector(lanes, Floats); }
inline Ints to_ints(Vec lanes) { return __builtin_convertvector(as<Floats>(lanes.x), Ints); }
#endif

inline Vec vec_of(Floats lanes) { return {as<decltype(Vec::x)>(lanes)}; }
inline Ints lane_bits(Vec lanes) { return as<Ints>(lanes.x); }
inline Ints all(std::int32_t value) { return Ints{} + value; }
inline Ints lesser(Ints a, Ints b) { return a < b ? a : b; }
inline Ints greater(Ints a, Ints b) { return a > b ? a : b; }
/// The second where the first is no number.
inline Vec lesser(Vec a, Vec b) { return {a.x < b.x ? a.x : b.x}; }
inline Vec greater(Vec a, Vec b) { return {a.x > b.x ? a.x : b.x}; }

/// The nearest whole numbers, ties to even, of values below 2^22.
inline Ints nearest(Vec lanes) {
  constexpr float shift = 12582912.0F;  // 1.5 * 2^23: the last bits of the sum are the whole part
  return lane_bits(lanes + Vec::of(shift)) - lane_bits(Vec::of(shift));
}

/// function(vector of the elements from i on, i) for whole vectors, then once for the rest, with zeros behind; and how many there are.
template <typename T, typename Function>
inline __attribute__((always_inline)) void each_vector(const T* from, std::int64_t count, const Function& function) {
  std::int64_t i = 0;
  for (; i + Vec::width <= count; i += Vec::width) function(Vec::load(from + i), i, std::int64_t{Vec::width});
  if (i == count) return;
  T rest[Vec::width];
  __builtin_memset(rest, 0, sizeof rest);
  __builtin_memcpy(rest, from + i, static_cast<std::size_t>(count - i) * sizeof(T));
  function(Vec::load(rest), i, count - i);
}

template <typename T, bool magnitudes>
GroupRange range_of(const T* from, std::int64_t count) {
  const GroupRange none = empty_range(magnitudes);
  Ints low[2] = {all(none.low), all(none.low)}, high[2] = {all(none.high), all(none.high)};
  const auto take = [&](Vec value, int which) __attribute__((always_inline)) {
    Ints keys = lane_bits(value);
    if (magnitudes) {
      keys &= sign_mask;
    } else {
      keys ^= (keys >> 31) & sign_mask;
      low[which] = lesser(low[which], keys);
    }
    high[which] = greater(high[which], keys);
  };
  std::int64_t i = 0;
  for (; i + 2 * Vec::width <= count; i += 2 * Vec::width) {
    take(Vec::load(from + i), 0);
    take(Vec::load(from + i + Vec::width), 1);
  }
  std::int32_t lows[Vec::width], highs[Vec::width];
  const Ints least = lesser(low[0], low[1]), greatest = greater(high[0], high[1]);
  __builtin_memcpy(lows, &least, sizeof lows);
  __builtin_memcpy(highs, &greatest, sizeof highs);
  GroupRange out = none;
  for (int lane = 0; lane < Vec::width; ++lane) {
    out.low = lows[lane] < out.low ? lows[lane] : out.low;
    out.high = highs[lane] > out.high ? highs[lane] : out.high;
  }
  for (; i < count; ++i) {
    T one[Vec::width];  // where the value is all lanes
    for (T& each : one) each = from[i];
    std::int32_t keys[Vec::width];
    const Ints bits = lane_bits(Vec::load(one));
    __builtin_memcpy(keys, &bits, sizeof keys);
    const std::int32_t key = magnitudes ? keys[0] & sign_mask : keys[0] ^ ((keys[0] >> 31) & sign_mask);
    out.low = key < out.low ? key : out.low;
    out.high = key > out.high ? key : out.high;
  }
  return out;
}
