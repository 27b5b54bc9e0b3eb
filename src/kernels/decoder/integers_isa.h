// Dequantization and quantization of matrices. The loops have a fixed number of iterations, so that
// the compiler vectorizes them.
#if defined(ANYACCEL_DECODER_INTEGERS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_INTEGERS_ISA_H)
#undef ANYACCEL_DECODER_INTEGERS_ISA_H
#else
#define ANYACCEL_DECODER_INTEGERS_ISA_H
#endif

#include "kernels/decoder/matrix.h"
#include "kernels/simd/element.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr int piece = 32;  // divides every group size

template <typename T>
inline void store_piece(const float* values, T* to) {
  for (int i = 0; i < piece; i += Vec::width) Vec::load(values + i).store(to + i);
}

template <typename T>
inline void widen8(const Matrix& m, std::int64_t output, T* to) {
  const auto* w = static_cast<const std::int8_t*>(m.weight) + output * m.inputs;
  const float* scales = m.scales + output * (m.inputs / m.group);
  for (std::int64_t begin = 0; begin < m.inputs; begin += m.group) {
    const float scale = *scales++;
    for (std::int64_t i = begin; i < begin + m.group; i += piece) {
      float values[piece];
      for (int k = 0; k < piece; ++k) values[k] = static_cast<float>(w[i + k]) * scale;
      store_piece(values, to + i);
    }
  }
}

/// Dequantizes a block of 4 * `words` inputs.
template <int words, typename T>
inline __attribute__((always_inline)) void widen_block(const std::uint8_t* from, std::int32_t zero,
                                                       float scale, T* to) {
  std::uint16_t w[words];
  __builtin_memcpy(w, from, sizeof w);
  float values[4 * words];
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < words; ++i)
      values[j * words + i] =
          static_cast<float>(static_cast<std::int32_t>((w[i] >> (4 * j)) & 15) - zero) * scale;
  for (int i = 0; i < 4 * words; i += piece) store_piece(values + i, to + i);
}

template <int words, typename T>
inline void widen4(const Matrix& m, std::int64_t output, T* to) {
  const auto* w = static_cast<const std::uint8_t*>(m.weight) + output * (m.inputs / 2);
  const std::int64_t first = output * (m.inputs / m.group);
  for (std::int64_t begin = 0, group = first; begin < m.inputs; begin += m.group, ++group) {
    const std::int32_t zero = m.zeros ? m.zeros[group] : 8;
    for (std::int64_t i = begin; i < begin + m.group; i += std::int64_t{4} * words)
      widen_block<words>(w + i / 2, zero, m.scales[group], to + i);
  }
}

template <typename T>
inline void widen_to(const Matrix& m, std::int64_t begin, std::int64_t end, T* to) {
  for (std::int64_t output = begin; output < end; ++output, to += m.inputs) {
    if (m.format == Format::int8)
      widen8(m, output, to);
    else if (m.group % 64 == 0)
      widen4<16>(m, output, to);
    else
      widen4<8>(m, output, to);
  }
}

template <typename T>
inline void load_row(const T* from, std::int64_t inputs, float* to) {
  for (std::int64_t i = 0; i < inputs; i += piece)
    for (int k = 0; k < piece; k += Vec::width) Vec::load(from + i + k).store(to + i + k);
}

/// Clamps a value to [low, high]. NaN becomes `low`.
inline float between(float value, float low, float high) {
  const float above = value > low ? value : low;
  return above < high ? above : high;
}
inline float inverse(float scale) { return scale == 0 ? 0 : 1 / scale; }

inline float sum_of(const float* lanes) {
  float sum = 0;
  for (int k = 0; k < piece; ++k) sum += lanes[k];
  return sum;
}

struct Range {
  float low, high;
};
inline Range range_of(const float* x, std::int64_t count) {
  float low[piece], high[piece];
  for (int k = 0; k < piece; ++k) low[k] = high[k] = x[k];
  for (std::int64_t i = piece; i < count; i += piece)
    for (int k = 0; k < piece; ++k) {
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
    }
  Range out{low[0], high[0]};
  for (int k = 1; k < piece; ++k) {
    out.low = low[k] < out.low ? low[k] : out.low;
    out.high = high[k] > out.high ? high[k] : out.high;
  }
  return out;
}

inline float quantize_group8(const float* x, std::int64_t count, std::int8_t* to) {
  const Range range = range_of(x, count);
  const float greatest = -range.low > range.high ? -range.low : range.high;
  const float scale = greatest / 127.0F, factor = inverse(scale);
  for (std::int64_t i = 0; i < count; i += piece)
    for (int k = 0; k < piece; ++k)
      to[i + k] = static_cast<std::int8_t>(
          static_cast<std::int32_t>(between(__builtin_rintf(x[i + k] * factor), -127, 127)));
  return scale;
}

/// Returns the 4-bit code of a value, from 0 to 15.
inline float level4(float value, float factor) {
  return between(__builtin_rintf(value * factor) + 8, 0, 15);
}

inline float error_of(const float* x, std::int64_t count, float scale) {
  const float factor = inverse(scale);
  float lanes[piece] = {};
  for (std::int64_t i = 0; i < count; i += piece)
    for (int k = 0; k < piece; ++k) {
      const float off = (level4(x[i + k], factor) - 8) * scale - x[i + k];
      lanes[k] += off * off;
    }
  return sum_of(lanes);
}

inline float best_scale4(const float* x, std::int64_t count) {
  const Range range = range_of(x, count);
  const float farthest = -range.low >= range.high ? range.low : range.high;
  float best = farthest / -8.0F, least = error_of(x, count, best);
  constexpr double shares[] = {0.96, 0.92, 0.88, 0.84};
  for (const double share : shares) {
    const float scale = farthest * static_cast<float>(share / -8.0),
                error = error_of(x, count, scale);
    if (!(error < least)) continue;
    best = scale;
    least = error;
  }
  return best;
}

template <int words>
inline void pack_block4(const float* x, float factor, std::uint8_t* to) {
  std::uint16_t w[words] = {};
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < words; ++i)
      w[i] = static_cast<std::uint16_t>(
          w[i] |
          (static_cast<std::uint32_t>(static_cast<std::int32_t>(level4(x[j * words + i], factor)))
           << (4 * j)));
  __builtin_memcpy(to, w, sizeof w);
}

}  // namespace

void widen(const Matrix& m, std::int64_t begin, std::int64_t end, Element type, void* to) {
  switch (type) {
    case Element::f32: return widen_to(m, begin, end, static_cast<float*>(to));
    case Element::bf16: return widen_to(m, begin, end, static_cast<Bf16*>(to));
    case Element::fp16: return widen_to(m, begin, end, static_cast<Fp16*>(to));
  }
}

void quantize(int bits, std::int64_t group, Element type, const void* from, std::int64_t inputs,
              void* weight, float* scales, float* scratch) {
  switch (type) {
    case Element::f32: load_row(static_cast<const float*>(from), inputs, scratch); break;
    case Element::bf16: load_row(static_cast<const Bf16*>(from), inputs, scratch); break;
    case Element::fp16: load_row(static_cast<const Fp16*>(from), inputs, scratch); break;
  }
  for (std::int64_t i = 0; i < inputs; i += group, ++scales) {
    const float* x = scratch + i;
    if (bits == 8) {
      *scales = quantize_group8(x, group, static_cast<std::int8_t*>(weight) + i);
      continue;
    }
    auto* to = static_cast<std::uint8_t*>(weight) + i / 2;
    *scales = best_scale4(x, group);
    const float factor = inverse(*scales);
    if (group % 64 == 0)
      for (std::int64_t k = 0; k < group; k += 64) pack_block4<16>(x + k, factor, to + k / 2);
    else
      for (std::int64_t k = 0; k < group; k += 32) pack_block4<8>(x + k, factor, to + k / 2);
  }
}

ANYACCEL_ISA_END
#endif
