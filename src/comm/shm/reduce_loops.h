// The loops, compiled once per instruction set. The including source first defines
// ANYACCEL_SHM_SET, includes reduce.h, <cstring> and <immintrin.h>, and only then selects the
// target. A source that defines ANYACCEL_SHM_NEON_BF16 also defines narrow_bf16() and add_bf16().
// All code is in the instruction set's namespace and does not use inline functions of the standard
// library, so that the linker cannot replace it with code compiled for a different instruction set.

#if defined(__clang__)
#define ANYACCEL_SHM_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define ANYACCEL_SHM_LOOP _Pragma("GCC ivdep")
#endif

// Vectorize each loop once instead of at every call site. Vectorization takes most of the compile
// time, and a call is cheap compared with processing hundreds of elements.
#define ANYACCEL_SHM_ONCE __attribute__((noinline))

namespace anyaccel::ops::shm::ANYACCEL_SHM_SET {
namespace {

constexpr std::size_t kBlock =
    512;  // number of float accumulators: 2 KiB, which fit in the L1 cache

struct Sum {
  template <class T>
  static constexpr T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <class T>
  static constexpr T of(T a, T b) {
    return static_cast<T>(a * b);
  }
};
struct Min {
  template <class T>
  static constexpr T of(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;  // b != b is true for NaN
  }
};
struct Max {
  template <class T>
  static constexpr T of(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};

template <class Op>
struct IsSum {
  static constexpr bool value = false;
};
template <>
struct IsSum<Sum> {
  static constexpr bool value = true;
};

template <bool Signed>
struct WideOf {
  using type = std::int32_t;
};
template <>
struct WideOf<false> {
  using type = std::uint32_t;
};
template <class T>
using Wide = typename WideOf<(static_cast<T>(-1) < T{0})>::type;

template <class T, class Op>
T apply(T a, T b) {
  // The product of 16-bit numbers would be computed in int, which can overflow.
  if constexpr (sizeof(T) == 2)
    return static_cast<T>(Op::of(static_cast<Wide<T>>(a), static_cast<Wide<T>>(b)));
  else
    return Op::of(a, b);
}

/// Turns sums into averages by dividing by the number of ranks.
template <class T>
ANYACCEL_SHM_ONCE void divide(T* out, std::size_t count, int by) {
  ANYACCEL_SHM_LOOP
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(out[i] / static_cast<T>(by));
}

template <class T, class Op>
ANYACCEL_SHM_ONCE void two(T* out, const T* a, const T* b, std::size_t count) {
  ANYACCEL_SHM_LOOP
  for (std::size_t i = 0; i < count; ++i) out[i] = apply<T, Op>(a[i], b[i]);
}

template <class T, class Op>
void fold(void* out, const void* const* in, int ranks, std::size_t count, int by) {
  T block[kBlock];
  auto* to = static_cast<T*>(out);
  for (std::size_t start = 0; start < count; start += kBlock) {
    const auto n = count - start < kBlock ? count - start : kBlock;
    const auto source = [&](int rank) { return static_cast<const T*>(in[rank]) + start; };
    if (ranks == 1) {
      __builtin_memmove(to + start, source(0), n * sizeof(T));
    } else if (ranks == 2) {
      two<T, Op>(to + start, source(0), source(1), n);
    } else {
      // `out` may be one of the inputs, so it is written last.
      two<T, Op>(block, source(0), source(1), n);
      for (int rank = 2; rank + 1 < ranks; ++rank) two<T, Op>(block, block, source(rank), n);
      two<T, Op>(to + start, block, source(ranks - 1), n);
    }
    // Averages are not defined for integers.
    if constexpr (IsSum<Op>::value && static_cast<T>(0.5) != T{0})
      if (by > 1) divide(to + start, n, by);
  }
}

// Conversions between bfloat16 and float32, for little-endian machines.
float as_float(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Rounds to the nearest bfloat16, which is the upper half of the result. The lower half is not
/// cleared.
std::uint32_t rounded_bf16(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);  // ties to even
  return (bits & 0x7fffffffU) > 0x7f800000U ? (bits | 0x400000U) : rounded;
}

ANYACCEL_SHM_ONCE void widen_bf16(const std::uint16_t* from, float* to, std::size_t count) {
  ANYACCEL_SHM_LOOP
  for (std::size_t i = 0; i < count; ++i)
    to[i] = as_float(static_cast<std::uint32_t>(from[i]) << 16);
}

#if !defined(ANYACCEL_SHM_NEON_BF16)
ANYACCEL_SHM_ONCE void narrow_bf16(const float* from, std::uint16_t* to, std::size_t count) {
  ANYACCEL_SHM_LOOP
  for (std::size_t i = 0; i < count; ++i)
    to[i] = static_cast<std::uint16_t>(rounded_bf16(from[i]) >> 16);
}
#endif

#if defined(ANYACCEL_SHM_AVX512)
/// Like the scalar rounded_bf16(), in five instructions.
__m512i rounded_bf16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const auto odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const auto nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  rounded = _mm512_mask_add_epi32(rounded, odd, rounded, _mm512_set1_epi32(1));
  return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}

/// Sums or averages the elements that fill whole vectors, and returns the number of these elements.
std::size_t add_bf16(std::uint16_t* out, const std::uint16_t* a, const std::uint16_t* b,
                     std::size_t count, float factor) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  const __m512 by = _mm512_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m512i x = _mm512_loadu_si512(a + i);
    const __m512i y = _mm512_loadu_si512(b + i);
    __m512 low = _mm512_add_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                               _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)));
    __m512 high = _mm512_add_ps(_mm512_castsi512_ps(_mm512_and_si512(x, upper)),
                                _mm512_castsi512_ps(_mm512_and_si512(y, upper)));
    if (factor != 1.0F) {
      low = _mm512_mul_ps(low, by);
      high = _mm512_mul_ps(high, by);
    }
    _mm512_storeu_si512(
        out + i, _mm512_mask_blend_epi16(0xaaaaaaaaU, _mm512_srli_epi32(rounded_bf16(low), 16),
                                         rounded_bf16(high)));
  }
  return i;
}
#endif

/// Reduces the inputs of two ranks in one pass over pairs of elements, without packing and without
/// accumulators in memory.
template <class Op>
void two_bf16(std::uint16_t* out, const std::uint16_t* a, const std::uint16_t* b, std::size_t count,
              int by) {
  const float factor = by > 1 ? 0.5F : 1.0F;  // multiplying by 0.5 is exact, like dividing by 2
#if defined(ANYACCEL_SHM_AVX512) || defined(ANYACCEL_SHM_NEON_BF16)
  if constexpr (IsSum<Op>::value) {
    const auto done = add_bf16(out, a, b, count, factor);
    out += done;
    a += done;
    b += done;
    count -= done;
  }
#endif
  constexpr std::uint32_t kUpper = 0xffff0000U;
  const std::size_t pairs = count / 2;
  ANYACCEL_SHM_LOOP
  for (std::size_t i = 0; i < pairs; ++i) {
    std::uint32_t x;
    std::uint32_t y;
    __builtin_memcpy(&x, a + 2 * i, sizeof(x));
    __builtin_memcpy(&y, b + 2 * i, sizeof(y));
    const auto first = rounded_bf16(Op::of(as_float(x << 16), as_float(y << 16)) * factor);
    const auto second = rounded_bf16(Op::of(as_float(x & kUpper), as_float(y & kUpper)) * factor);
    const std::uint32_t both = first >> 16 | (second & kUpper);
    __builtin_memcpy(out + 2 * i, &both, sizeof(both));
  }
  if (count % 2 != 0) {
    const auto last = count - 1;
    const auto value =
        Op::of(as_float(std::uint32_t{a[last]} << 16), as_float(std::uint32_t{b[last]} << 16)) *
        factor;
    out[last] = static_cast<std::uint16_t>(rounded_bf16(value) >> 16);
  }
}

// Conversions between float16 and float32.
#if defined(__aarch64__)
void widen_f16(const std::uint16_t* from, float* to, std::size_t count) {
  const auto* half = reinterpret_cast<const __fp16*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] = half[i];
}
void narrow_f16(const float* from, std::uint16_t* to, std::size_t count) {
  auto* half = reinterpret_cast<__fp16*>(to);
  for (std::size_t i = 0; i < count; ++i) half[i] = static_cast<__fp16>(from[i]);
}
#else
[[maybe_unused]] float widen_one(std::uint16_t half) {
  // A multiplication corrects the exponent, also for subnormal numbers.
  std::uint32_t bits = static_cast<std::uint32_t>(half & 0x7fffU) << 13;
  float value;
  if ((half & 0x7c00U) == 0x7c00U) {
    bits |= 0x7f800000U;
    __builtin_memcpy(&value, &bits, sizeof(value));
  } else {
    __builtin_memcpy(&value, &bits, sizeof(value));
    value *= 0x1p112F;
  }
  __builtin_memcpy(&bits, &value, sizeof(bits));
  bits |= static_cast<std::uint32_t>(half & 0x8000U) << 16;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
[[maybe_unused]] std::uint16_t narrow_one(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  bits &= 0x7fffffffU;
  if (bits > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | (bits >> 13 & 0x3ffU));
  if (bits >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (bits < 0x38800000U) {  // subnormal: the float addition rounds correctly
    float magnitude;
    __builtin_memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude += 0.5F;
    __builtin_memcpy(&bits, &magnitude, sizeof(bits));
    return static_cast<std::uint16_t>(sign | (bits - 0x3f000000U));
  }
  bits += 0xc8000fffU +
          (bits >> 13 &
           1U);  // changes the exponent bias from 127 to 15 and adds half a unit in the last place
  return static_cast<std::uint16_t>(sign | bits >> 13);
}
ANYACCEL_SHM_ONCE void widen_f16(const std::uint16_t* from, float* to, std::size_t count) {
  std::size_t i = 0;
#if defined(ANYACCEL_SHM_AVX512)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(
        to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
#elif defined(ANYACCEL_SHM_F16C)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  for (; i < count; ++i) to[i] = widen_one(from[i]);
}
ANYACCEL_SHM_ONCE void narrow_f16(const float* from, std::uint16_t* to, std::size_t count) {
  std::size_t i = 0;
#if defined(ANYACCEL_SHM_AVX512)
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to + i),
        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(ANYACCEL_SHM_F16C)
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < count; ++i) to[i] = narrow_one(from[i]);
}
#endif

struct Bf16 {
  static void widen(const std::uint16_t* from, float* to, std::size_t n) {
    widen_bf16(from, to, n);
  }
  static void narrow(const float* from, std::uint16_t* to, std::size_t n) {
    narrow_bf16(from, to, n);
  }
};
struct F16 {
  static void widen(const std::uint16_t* from, float* to, std::size_t n) { widen_f16(from, to, n); }
  static void narrow(const float* from, std::uint16_t* to, std::size_t n) {
    narrow_f16(from, to, n);
  }
};

template <class Half, class Op>
void fold_half(void* out, const void* const* in, int ranks, std::size_t count, int by) {
  float total[kBlock];
  float next[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const auto n = count - start < kBlock ? count - start : kBlock;
    Half::widen(static_cast<const std::uint16_t*>(in[0]) + start, total, n);
    for (int rank = 1; rank < ranks; ++rank) {
      Half::widen(static_cast<const std::uint16_t*>(in[rank]) + start, next, n);
      two<float, Op>(total, total, next, n);
    }
    if (by > 1) divide(total, n, by);
    Half::narrow(total, static_cast<std::uint16_t*>(out) + start, n);
  }
}

template <class Op>
void fold_float(Kind kind, void* out, const void* const* in, int ranks, std::size_t count, int by) {
  switch (kind) {
    case Kind::f32: return fold<float, Op>(out, in, ranks, count, by);
    case Kind::f64: return fold<double, Op>(out, in, ranks, count, by);
    case Kind::f16: return fold_half<F16, Op>(out, in, ranks, count, by);
    default: break;
  }
  if (ranks == 2)
    two_bf16<Op>(static_cast<std::uint16_t*>(out), static_cast<const std::uint16_t*>(in[0]),
                 static_cast<const std::uint16_t*>(in[1]), count, by);
  else
    fold_half<Bf16, Op>(out, in, ranks, count, by);
}

#if !defined(ANYACCEL_SHM_INTEGERS_OF)
template <class Op>
void fold_unsigned(std::size_t width, void* out, const void* const* in, int ranks,
                   std::size_t count) {
  switch (width) {
    case 1: return fold<std::uint8_t, Op>(out, in, ranks, count, 1);
    case 2: return fold<std::uint16_t, Op>(out, in, ranks, count, 1);
    case 4: return fold<std::uint32_t, Op>(out, in, ranks, count, 1);
    default: return fold<std::uint64_t, Op>(out, in, ranks, count, 1);
  }
}

template <class Op>
void fold_signed(std::size_t width, void* out, const void* const* in, int ranks,
                 std::size_t count) {
  switch (width) {
    case 1: return fold<std::int8_t, Op>(out, in, ranks, count, 1);
    case 2: return fold<std::int16_t, Op>(out, in, ranks, count, 1);
    case 4: return fold<std::int32_t, Op>(out, in, ranks, count, 1);
    default: return fold<std::int64_t, Op>(out, in, ranks, count, 1);
  }
}

// Sums and products wrap identically for signed and unsigned integers of the same size.
template <class Op, bool Compares>
void fold_integer(Kind kind, void* out, const void* const* in, int ranks, std::size_t count) {
  const auto width = size_of(kind);
  if constexpr (Compares)
    if (kind == Kind::i8 || kind == Kind::i16 || kind == Kind::i32 || kind == Kind::i64)
      return fold_signed<Op>(width, out, in, ranks, count);
  fold_unsigned<Op>(width, out, in, ranks, count);
}
#endif

template <class Op, bool Compares>
void fold_kind(Kind kind, void* out, const void* const* in, int ranks, std::size_t count, int by) {
#if !defined(ANYACCEL_SHM_INTEGERS_OF)
  if (is_integer(kind)) return fold_integer<Op, Compares>(kind, out, in, ranks, count);
#endif
  fold_float<Op>(kind, out, in, ranks, count, by);
}

void reduce_all(Kind kind, Reduce reduce, void* out, const void* const* in, int ranks,
                std::size_t count) {
  if (kind == Kind::boolean) {  // as in NCCL, the sum of booleans is their OR
    kind = Kind::u8;
    reduce = reduce == Reduce::sum || reduce == Reduce::max ? Reduce::max : Reduce::min;
  }
#if defined(ANYACCEL_SHM_INTEGERS_OF)
  if (is_integer(kind)) return ANYACCEL_SHM_INTEGERS_OF.reduce(kind, reduce, out, in, ranks, count);
#endif
  switch (reduce) {
    case Reduce::sum: return fold_kind<Sum, false>(kind, out, in, ranks, count, 1);
    case Reduce::avg: return fold_kind<Sum, false>(kind, out, in, ranks, count, ranks);
    case Reduce::product: return fold_kind<Product, false>(kind, out, in, ranks, count, 1);
    case Reduce::min: return fold_kind<Min, true>(kind, out, in, ranks, count, 1);
    case Reduce::max: return fold_kind<Max, true>(kind, out, in, ranks, count, 1);
  }
}

}  // namespace
}  // namespace anyaccel::ops::shm::ANYACCEL_SHM_SET
