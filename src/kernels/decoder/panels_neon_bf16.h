// Matrix products on groups of four bfloat16 elements ("quads"), using the matrix product
// instruction for bfloat16 of aarch64, which multiplies quads of two rows by quads of two outputs.
//
// A panel consists of strips [quads][quad_strip][4]. Missing inputs of the last quad are zero.
#pragma once

#if defined(__aarch64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA neon_bf16  // default for tools that parse only this file
#endif

#include "kernels/decoder/panels.h"
#include "kernels/simd/neon_loads_isa.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr std::int64_t quad_strip = 16, quad_bytes = 8, strip_step = quad_strip * quad_bytes;

inline uint64x2_t words_at(const char* from) {
  return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(from)));
}
inline bfloat16x8_t quads_of(uint64x2_t words) { return vreinterpretq_bf16_u64(words); }

/// Multiplies 2 or 4 rows, whose addresses are in `x`, by a strip.
template <int rows>
inline __attribute__((always_inline)) void quad_tile(const char* strip, std::int64_t quads,
                                                     const char* const (&x)[rows],
                                                     float32x4_t (&sum)[rows / 2][quad_strip / 2]) {
  for (auto& pair : sum)
    for (auto& each : pair) each = vdupq_n_f32(0);
  const auto step = [&](const bfloat16x8_t(&row_pairs)[rows / 2]) __attribute__((always_inline)) {
    for (int o = 0; o < quad_strip / 2; o += 2) {
      int8x16_t w[2];
      load_two(reinterpret_cast<const std::int8_t*>(strip) + 16 * o, w[0], w[1]);
      for (int k = 0; k < 2; ++k)
        for (int r = 0; r < rows / 2; ++r)
          sum[r][o + k] = vbfmmlaq_f32(sum[r][o + k], row_pairs[r], vreinterpretq_bf16_s8(w[k]));
    }
    strip += strip_step;
  };
  bfloat16x8_t low[rows / 2], high[rows / 2];
  const auto load = [&](std::int64_t q) __attribute__((always_inline)) {
    for (int r = 0; r < rows / 2; ++r) {
      const uint64x2_t a = words_at(x[2 * r] + q * quad_bytes),
                       b = words_at(x[2 * r + 1] + q * quad_bytes);
      low[r] = quads_of(vzip1q_u64(a, b));
      high[r] = quads_of(vzip2q_u64(a, b));
    }
  };
  std::int64_t q = 0;
  for (; q + 2 <= quads; q += 2) {
    load(q);
    step(low);
    step(high);
  }
  if (q == quads) return;
  load(q);  // rows are padded to a multiple of 64 bytes
  step(low);
}

inline float32x4_t halves_of(float32x4_t a, float32x4_t b, bool second) {
  const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
  return vreinterpretq_f32_f64(second ? vzip2q_f64(x, y) : vzip1q_f64(x, y));
}

template <int rows>
inline void multiply_strip(const char* strip, std::int64_t quads, const char* from,
                           std::int64_t x_row, int count, float* to, std::int64_t to_row) {
  const char* x[rows];
  for (int r = 0; r < rows; ++r) x[r] = from + (r < count ? r : count - 1) * x_row;
  float32x4_t sum[rows / 2][quad_strip / 2];
  quad_tile<rows>(strip, quads, x, sum);
  for (int r = 0; r < rows; ++r) {
    if (r >= count) break;
    for (int o = 0; o < quad_strip / 2; o += 2)
      vst1q_f32(to + r * to_row + 2 * o, halves_of(sum[r / 2][o], sum[r / 2][o + 1], r % 2));
  }
}

}  // namespace

void multiply_quads(const char* panel, std::int64_t quads, const char* x, std::int64_t x_row,
                    std::int64_t rows, float* to, std::int64_t to_row) {
  for (std::int64_t s = 0; s < panel_outputs; s += quad_strip, panel += quads * strip_step) {
    std::int64_t r = 0;
    for (; r + 3 <= rows; r += 4)
      multiply_strip<4>(panel, quads, x + r * x_row, x_row, rows - r < 4 ? 3 : 4,
                        to + r * to_row + s, to_row);
    if (r < rows)
      multiply_strip<2>(panel, quads, x + r * x_row, x_row, static_cast<int>(rows - r),
                        to + r * to_row + s, to_row);
  }
}

/// Converting in place is allowed, so loads and stores use memcpy(), which may access any type.
void row_to_bf16(const float* from, std::int64_t count, char* to) {
  const auto convert = [](const float* at, char* out) __attribute__((always_inline)) {
    float32x4_t low, high;
    __builtin_memcpy(&low, at, sizeof low);
    __builtin_memcpy(&high, at + 4, sizeof high);
    const bfloat16x8_t words = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high);
    __builtin_memcpy(out, &words, sizeof words);
  };
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) convert(from + i, to + 2 * i);
  if (i == count) return;
  float rest[8] = {};
  char last[16];
  __builtin_memcpy(rest, from + i, static_cast<unsigned long>(count - i) * 4);
  convert(rest, last);
  __builtin_memcpy(to + 2 * i, last, static_cast<unsigned long>(count - i) * 2);
}

/// Stores quad_strip rows of bfloat16 elements as the outputs [first, first + quad_strip) of a
/// panel.
void place_quads(const char* const (&rows)[quad_strip], std::int64_t inputs, std::int64_t quads,
                 std::int64_t first, char* panel) {
  panel += first * quads * quad_bytes;
  const auto place =
      [](const char* a, const char* b, char* to, bool two) __attribute__((always_inline)) {
    const uint64x2_t x = words_at(a), y = words_at(b);
    auto* const out = reinterpret_cast<std::uint64_t*>(to);
    vst1q_u64(out, vzip1q_u64(x, y));
    if (two) vst1q_u64(out + strip_step / 8, vzip2q_u64(x, y));
  };
  for (int o = 0; o < quad_strip; o += 2, panel += 2 * quad_bytes) {
    char* to = panel;
    std::int64_t i = 0;
    for (; i + 8 <= inputs; i += 8, to += 2 * strip_step)
      place(rows[o] + 2 * i, rows[o + 1] + 2 * i, to, true);
    if (i == inputs) continue;
    char rest[2][16] = {};
    for (int k = 0; k < 2; ++k)
      __builtin_memcpy(rest[k], rows[o + k] + 2 * i, static_cast<unsigned long>(inputs - i) * 2);
    place(rest[0], rest[1], to, 4 * quads - i > 4);
  }
}

/// Stores the columns [begin, begin + panel_outputs) of values[inputs][columns] as the outputs of a
/// panel.
void turned_quads(const char* values, std::int64_t inputs, std::int64_t columns, std::int64_t begin,
                  char* panel) {
  const std::int64_t count = columns - begin < panel_outputs ? columns - begin : panel_outputs,
                     quads = (inputs + 3) / 4;
  for (std::int64_t q = 0; q < quads; ++q) {
    std::uint16_t four[4][panel_outputs] = {};
    for (std::int64_t i = 4 * q; i < 4 * q + 4 && i < inputs; ++i)
      __builtin_memcpy(four[i % 4], values + 2 * (i * columns + begin),
                       static_cast<unsigned long>(count) * 2);
    for (std::int64_t o = 0; o < panel_outputs; o += 8) {
      const uint16x8x4_t rows = {{vld1q_u16(four[0] + o), vld1q_u16(four[1] + o),
                                  vld1q_u16(four[2] + o), vld1q_u16(four[3] + o)}};
      vst4q_u16(reinterpret_cast<std::uint16_t*>(panel + (o / quad_strip * quads + q) * strip_step +
                                                 o % quad_strip * quad_bytes),
                rows);
    }
  }
}

ANYACCEL_ISA_END
#endif
