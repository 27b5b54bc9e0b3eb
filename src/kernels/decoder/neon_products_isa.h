// Matrix products of a few rows with int8 or int4 weights, on aarch64 processors with dot products
// or matrix products of bytes.
//
// A tile has four outputs, whose sums are the lanes of a vector. The order in which a row's
// products are summed does not depend on the number of rows.
#if defined(ANYACCEL_DECODER_NEON_PRODUCTS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_NEON_PRODUCTS_ISA_H)
#undef ANYACCEL_DECODER_NEON_PRODUCTS_ISA_H
#else
#define ANYACCEL_DECODER_NEON_PRODUCTS_ISA_H
#endif

#if defined(__aarch64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA neon_i8mm  // default for tools that parse only this file
#endif

#include "kernels/decoder/matrix.h"
#include "kernels/decoder/neon_dot_isa.h"
#include "kernels/simd/target.h"

ANYACCEL_ISA_BEGIN
namespace {

/// A prepared row: its bytes, one scale per row_block, and for int4, four sums per row_block: those
/// of the integers of each block.
struct ByteRow {
  const std::int8_t* bytes;
  const float* scales;
  const std::int32_t* sums;
};
inline ByteRow byte_row(const void* prepared, std::int64_t inputs) {
  const std::int64_t blocks = (inputs + row_block - 1) / row_block;
  const auto* bytes = static_cast<const std::int8_t*>(prepared);
  const auto* scales = reinterpret_cast<const float*>(bytes + blocks * row_block * 2);
  return {bytes, scales, reinterpret_cast<const std::int32_t*>(scales + (blocks + 15) / 16 * 16)};
}

/// Number of rows that a tile multiplies at once. Their sums stay in registers.
template <std::int64_t block>
constexpr int most_rows = matrix_products || block == 32 ? 4 : 2;
template <int n>
struct Constant {
  static constexpr int value = n;
};

/// Number of inputs whose products are added as integers; they share a weight scale.
inline std::int64_t exact_block(std::int64_t group) {
  return group % 128 == 0 ? 128 : group % 64 == 0 ? 64 : 32;
}

/// Scales and zero points of a tile. Each vector has one element per output. If `own` is set, each
/// block is a group; otherwise, groups consist of several blocks.
template <std::int64_t block, bool asymmetric, bool own>
struct Groups {
  static constexpr int most = row_block / block;
  const float* scales[4];
  const std::uint8_t* zeros[4];
  std::int64_t steps, left, at = 0;  ///< at: current group, with `left` of its `steps` blocks left
  float32x4_t scale[most];
  int32x4_t zero[most];

  Groups(const Matrix& m, const std::int64_t (&outputs)[4])
      : steps(m.group / block), left(m.group / block) {
    for (int o = 0; o < 4; ++o) {
      scales[o] = m.scales + outputs[o] * (m.inputs / m.group);
      if (asymmetric) zeros[o] = m.zeros + outputs[o] * (m.inputs / m.group);
    }
    for (auto& each : zero) each = vdupq_n_s32(8);
  }
  /// Loads the values for the next `count` blocks.
  inline __attribute__((always_inline)) void load(int count) {
    if (own && block == 32 && count == most) {
      const float32x4_t a = vld1q_f32(scales[0] + at), b = vld1q_f32(scales[1] + at),
                        c = vld1q_f32(scales[2] + at), d = vld1q_f32(scales[3] + at);
      const float32x4_t ab[2] = {vzip1q_f32(a, b), vzip2q_f32(a, b)},
                        cd[2] = {vzip1q_f32(c, d), vzip2q_f32(c, d)};
      for (int i = 0; i < most; ++i)
        scale[i] = i % 2 ? ends(ab[i / 2], cd[i / 2]) : starts(ab[i / 2], cd[i / 2]);
    } else if (own && block == 64 && count == most) {
      const float32x4_t ac = vcombine_f32(vld1_f32(scales[0] + at), vld1_f32(scales[2] + at)),
                        bd = vcombine_f32(vld1_f32(scales[1] + at), vld1_f32(scales[3] + at));
      for (int i = 0; i < most; ++i) scale[i] = i ? vtrn2q_f32(ac, bd) : vtrn1q_f32(ac, bd);
    } else if (own) {
      for (int i = 0; i < count; ++i) scale[i] = of_tile(scales, at + i);
    }
    if (own) {
      if (asymmetric)
        for (int i = 0; i < count; ++i) zero[i] = zeros_of_tile(at + i);
      at += count;
      return;
    }
    for (int i = 0; i < count; ++i) {
      scale[i] = of_tile(scales, at);
      if (asymmetric) zero[i] = zeros_of_tile(at);
      if (--left) continue;
      left = steps;
      ++at;
    }
  }

 private:
  static float32x4_t of_tile(const float* const (&from)[4], std::int64_t i) {
    return float32x4_t{from[0][i], from[1][i], from[2][i], from[3][i]};
  }
  int32x4_t zeros_of_tile(std::int64_t i) const {
    return int32x4_t{zeros[0][i], zeros[1][i], zeros[2][i], zeros[3][i]};
  }
  static float32x4_t starts(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static float32x4_t ends(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
};

/// Multiplies `rows` rows by the outputs [output, output + count), where `count` is at most 4.
template <bool four_bits, bool asymmetric, std::int64_t block, bool own, int rows>
inline __attribute__((always_inline)) void bytes_tile(const Matrix& m, std::int64_t output,
                                                      std::int64_t count, const char* prepared,
                                                      std::int64_t row_bytes, float* to,
                                                      std::int64_t to_row) {
  constexpr std::int64_t unit_bytes = four_bits ? unit / 2 : unit;
  std::int64_t outputs[4];
  const std::int8_t* w[4];
  for (int o = 0; o < 4; ++o) {
    outputs[o] = output + (o < count ? o : 0);  // missing outputs are computed but not stored
    w[o] = static_cast<const std::int8_t*>(m.weight) + outputs[o] * m.inputs / (four_bits ? 2 : 1);
  }
  Groups<block, asymmetric, own> groups(m, outputs);
  ByteRow first = byte_row(prepared, m.inputs);
  float32x4_t sum[rows];
  for (auto& each : sum) each = vdupq_n_f32(0);
  const auto step = [&](int blocks) __attribute__((always_inline)) {
    groups.load(blocks);
    float32x4_t part[rows];
    int32x4_t row_sums[rows];
    if (four_bits)
      for (int r = 0; r < rows; ++r)
        row_sums[r] = vld1q_s32(reinterpret_cast<const std::int32_t*>(
            reinterpret_cast<const char*>(first.sums) + r * row_bytes));
    for (int b = 0; b < blocks; ++b) {
      Sums<block> sums[rows];
      for (int u = 0; u < block / unit; ++u) {
        const std::int64_t k = b * (block / unit) + u;
        const Unit weights = load_unit<four_bits>(w, k * unit_bytes);
        for (int r = 0; r < rows; ++r)
          sums[r].add(weights, first.bytes + r * row_bytes + k * 2 * unit);
      }
      for (int r = 0; r < rows; ++r) {
        int32x4_t exact = sums[r].total();
        if (four_bits) exact = vmlsq_s32(exact, groups.zero[b], vdupq_n_s32(row_sums[r][b]));
        const float32x4_t value = vcvtq_f32_s32(exact);
        part[r] =
            b ? vfmaq_f32(part[r], value, groups.scale[b]) : vmulq_f32(value, groups.scale[b]);
      }
    }
    for (int r = 0; r < rows; ++r)
      sum[r] = vfmaq_n_f32(sum[r], part[r],
                           *reinterpret_cast<const float*>(
                               reinterpret_cast<const char*>(first.scales) + r * row_bytes));
    for (int o = 0; o < 4; ++o) w[o] += row_block / unit * unit_bytes;
    first.bytes += 2 * row_block;
    first.scales += 1;
    first.sums += 4;
  };
  for (std::int64_t i = m.inputs / row_block; i; --i) step(row_block / block);
  const auto rest = static_cast<int>(m.inputs % row_block / block);
  if (rest) step(rest);
  for (int r = 0; r < rows; ++r) {
    float values[4];
    vst1q_f32(values, sum[r]);
    for (std::int64_t o = 0; o < count; ++o) to[r * to_row + o] = values[o];
  }
}

template <bool four_bits, bool asymmetric, std::int64_t block, bool own>
__attribute__((noinline)) void bytes_products(const Matrix& m, const void* prepared,
                                              std::int64_t rows, std::int64_t begin,
                                              std::int64_t end, float* to, std::int64_t to_row) {
  const std::int64_t bytes = prepared_bytes(m.format, m.inputs);
  for (std::int64_t output = begin; output < end; output += tile_outputs) {
    const std::int64_t count = end - output < tile_outputs ? end - output : tile_outputs;
    const char* from = static_cast<const char*>(prepared);
    float* out = to + output - begin;
    std::int64_t r = 0;
    const auto tile = [&](auto at_once) __attribute__((always_inline)) {
      constexpr int n = decltype(at_once)::value;
      bytes_tile<four_bits, asymmetric, block, own, n>(m, output, count, from, bytes, out, to_row);
      from += n * bytes;
      out += n * to_row;
      r += n;
    };
    while (rows - r >= most_rows<block>) tile(Constant<most_rows<block>>{});
    while (r < rows) tile(Constant<1>{});
  }
}

template <bool four_bits, bool asymmetric>
inline void products_of_group(const Matrix& m, const void* prepared, std::int64_t rows,
                              std::int64_t begin, std::int64_t end, float* to,
                              std::int64_t to_row) {
  const auto multiply = [&](auto block) {
    constexpr std::int64_t size = decltype(block)::value;
    return m.group == size ? bytes_products<four_bits, asymmetric, size, true>
                           : bytes_products<four_bits, asymmetric, size, false>;
  };
  const std::int64_t block = exact_block(m.group);
  const auto products = block == 128  ? multiply(Constant<128>{})
                        : block == 64 ? multiply(Constant<64>{})
                                      : multiply(Constant<32>{});
  products(m, prepared, rows, begin, end, to, to_row);
}

/// A unit's inputs in the order in which the registers of load_unit() contain them.
struct UnitWords {
  int16x8_t words[4];
};
/// Returns a unit of an int4 block, for which matrix.h describes the order of nibbles. `from` is
/// the first of the inputs in the lower nibbles of even bytes. Those in the lower nibbles of odd
/// bytes follow at `odd`, and those in upper nibbles at `upper`.
inline UnitWords int4_unit(const std::int16_t* from, std::int64_t upper, std::int64_t odd) {
  UnitWords out;
  for (int i = 0; i < 2; ++i) {
    const int16x8_t a = vld1q_s16(from + i * upper), b = vld1q_s16(from + i * upper + odd);
    out.words[2 * i] = vzip1q_s16(a, b);
    out.words[2 * i + 1] = vzip2q_s16(a, b);
  }
  return out;
}
inline UnitWords unit_words(Format format, bool packed64, const std::int16_t* words,
                            std::int64_t u) {
  const std::int16_t* const from = words + u * unit;
  if (format == Format::int8)
    return {{vld1q_s16(from), vld1q_s16(from + 8), vld1q_s16(from + 16), vld1q_s16(from + 24)}};
  return packed64 ? int4_unit(words + u / 2 * 64 + u % 2 * 8, 16, 32) : int4_unit(from, 8, 16);
}

/// Converts up to row_block inputs.
inline void prepare_block(Format format, std::int64_t group, const float* from, std::int64_t count,
                          std::int8_t* bytes, float* scale, std::int32_t* sums) {
  float values[row_block] = {};
  __builtin_memcpy(values, from, static_cast<unsigned long>(count) * 4);
  float32x4_t most = vdupq_n_f32(0);
  for (int i = 0; i < row_block; i += 4) most = vmaxq_f32(most, vabsq_f32(vld1q_f32(values + i)));
  const float greatest = vmaxvq_f32(most);
  const float inverse = greatest > 0 ? greatest_word / greatest : 0;
  *scale = greatest / greatest_word;
  std::int16_t words[row_block];
  for (int i = 0; i < row_block; i += 8) {
    const int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(values + i), inverse)),
                    high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(values + i + 4), inverse));
    vst1q_s16(words + i, vmovn_high_s32(vmovn_s32(low), high));
  }
  const std::int64_t block = exact_block(group);
  for (int i = 0; i < 4; ++i) sums[i] = 0;
  if (format == Format::int4)
    for (int i = 0; i < row_block; i += 8) sums[i / block] += vaddlvq_s16(vld1q_s16(words + i));
  for (std::int64_t u = 0; u < row_block / unit; ++u, bytes += 2 * unit) {
    const UnitWords placed = unit_words(format, group % 64 == 0, words, u);
    for (int i = 0; i < 4; i += 2)
      store_words(placed.words[i], placed.words[i + 1], bytes + i / 2 * unit);
  }
}

}  // namespace

void prepare_bytes(Format format, std::int64_t group, const float* from, std::int64_t rows,
                   std::int64_t inputs, void* prepared) {
  for (std::int64_t r = 0; r < rows; ++r, from += inputs) {
    const ByteRow row =
        byte_row(static_cast<char*>(prepared) + r * prepared_bytes(format, inputs), inputs);
    for (std::int64_t i = 0; i < inputs; i += row_block)
      prepare_block(format, group, from + i, inputs - i < row_block ? inputs - i : row_block,
                    const_cast<std::int8_t*>(row.bytes) + 2 * i,
                    const_cast<float*>(row.scales) + i / row_block,
                    const_cast<std::int32_t*>(row.sums) + i / row_block * 4);
  }
}

void multiply_bytes(const Matrix& m, const void* prepared, std::int64_t rows, std::int64_t begin,
                    std::int64_t end, float* to, std::int64_t to_row) {
  if (m.format == Format::int8)
    return products_of_group<false, false>(m, prepared, rows, begin, end, to, to_row);
  if (m.zeros) return products_of_group<true, true>(m, prepared, rows, begin, end, to, to_row);
  products_of_group<true, false>(m, prepared, rows, begin, end, to, to_row);
}

ANYACCEL_ISA_END
#endif
#endif
