// Matrix products of a few rows with int8 or int4 weights. int16_dot_isa.h or vnni_dot_isa.h
// defines the layout of a row and the products of one step.
#if defined(ANYACCEL_DECODER_INTEGER_PRODUCTS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_INTEGER_PRODUCTS_ISA_H)
#undef ANYACCEL_DECODER_INTEGER_PRODUCTS_ISA_H
#else
#define ANYACCEL_DECODER_INTEGER_PRODUCTS_ISA_H
#endif

#include "kernels/decoder/matrix.h"
#include "kernels/decoder/prefetch_isa.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/vec.h"
#if defined(ANYACCEL_VNNI)
#include "kernels/decoder/vnni_dot_isa.h"
#else
#include "kernels/decoder/int16_dot_isa.h"
#endif

ANYACCEL_ISA_BEGIN
namespace {

/// A prepared row: its words, one scale per word_block, and the initial sums of the steps.
struct Row {
  const std::int16_t* words;
  const float* scales;
  const std::int32_t* sums;
};
inline Row row_of(const void* prepared, Format format, std::int64_t inputs, std::int64_t row) {
  const char* at = static_cast<const char*>(prepared) + row * prepared_bytes(format, inputs);
  const std::int64_t blocks = rounded(inputs, word_block) / word_block;
  const auto* words = reinterpret_cast<const std::int16_t*>(at);
  const auto* scales = reinterpret_cast<const float*>(at + blocks * word_block * 2);
  return {words, scales, reinterpret_cast<const std::int32_t*>(scales + rounded(blocks, 16))};
}

/// Scale products (weight scale times row scale), for each output of a tile and each step. If a
/// step is a whole word_block, each step has its own pair of scales. The products for many steps
/// are then computed at once, so that the loop over steps only loads them. With shorter steps, the
/// loop multiplies the two scales itself.
template <int outputs, int block>
struct StepScales {
  static constexpr std::int64_t most = 64;  ///< maximum number of steps per fill()
  static constexpr bool at_once = block == word_block;
  const float *at, *row;  ///< at: scales of the step's group; row: scales of the row
  std::int64_t groups, steps, left;
  alignas(64) float both[at_once ? outputs : 1]
                        [most];  // NOLINT(bugprone-branch-clone): of one output, both are 1

  StepScales(const Matrix& m, std::int64_t output, const Row& x)
      : at(m.scales + output * (m.inputs / m.group)),
        row(x.scales),
        groups(m.inputs / m.group),
        steps(m.group / block),
        left(steps) {}

  /// Computes the scale products for `count` steps, starting at step `first`.
  void fill(std::int64_t first, std::int64_t count) {
    if (!at_once) return;
    const std::int64_t group = first ? first / steps : 0, into = first ? first % steps : 0;
    for (int o = 0; o < outputs; ++o) {
      const float* from = at + o * groups + group;
      std::int64_t i = 0;
      if (steps == 1 && count >= Vec::width)
        for (; i < count; i += Vec::width) {
          if (i + Vec::width > count) i = count - Vec::width;  // overlaps the previous vector
          (Vec::load(from + i) * Vec::load(row + first + i)).store(both[o] + i);
        }
      from += i;
      for (std::int64_t to_next = steps - into; i < count; ++i) {
        both[o][i] = *from * row[first + i];
        if (--to_next) continue;
        to_next = steps;
        ++from;
      }
    }
  }
  /// Returns the product of the scales for step k, which begins at input i. If `at_once` is set,
  /// fill() must have computed it. If `two` is set, the second half of the step belongs to the next
  /// group.
  inline __attribute__((always_inline)) Vec of(int output, std::int64_t k, std::int64_t i,
                                               bool two = false) const {
    if (at_once) return Vec::of(both[at_once ? output : 0][k]);
    const float* own = at + output * groups;
    return (two ? halves(own[0], own[1]) : Vec::of(own[0])) * Vec::of(row[i / word_block]);
  }
  void next(std::int64_t count = 1) {
    if (at_once || (left -= count) > 0) return;
    left = steps;
    at += count;
  }
};

/// Processes `block` inputs per step. The inputs of a step share one weight scale and one row
/// scale.
template <int outputs, int block>
inline __attribute__((always_inline)) void int8_tile(const Matrix& m, std::int64_t output,
                                                     const Row& x, float* to) {
  const std::int64_t inputs = m.inputs, groups = inputs / m.group, steps = inputs / block;
  const auto* w = static_cast<const std::int8_t*>(m.weight) + output * inputs;
  StepScales<outputs, block> scales(m, output, x);
  Vec sum[4] = {Vec::of(0), Vec::of(0), Vec::of(0), Vec::of(0)};
  Prefetcher<> prefetcher(w, outputs * inputs, outputs * block);
  scales_ahead(m.scales + output * groups, outputs * groups);
  for (std::int64_t first = 0, i = 0; first < steps; first += scales.most) {
    const std::int64_t count = steps - first < scales.most ? steps - first : scales.most;
    scales.fill(first, count);
    for (std::int64_t k = 0; k < count; ++k, i += block, w += block) {
      prefetcher.step();
      const Words start = start8<block>(x.sums, i);
      const Step8<block> words(x.words, i);
      for (int o = 0; o < outputs; ++o) {
        const Words exact = add8(start, w + o * inputs, words);
        sum[o] = Vec::fma(exact.floats(), scales.of(o, k, i), sum[o]);
      }
      scales.next();
    }
  }
  if constexpr (outputs == 4)
    totals(sum, to);
  else
    to[0] = total(sum[0]);
}

/// If `paired` is set, the two blocks of a step belong to different groups.
template <int outputs, bool asymmetric, bool paired>
inline __attribute__((always_inline)) void int4_tile(const Matrix& m, std::int64_t output,
                                                     const Row& x, float* to) {
  constexpr int block = paired ? step4 / 2 : step4, blocks = step4 / block;
  const std::int64_t row = m.inputs / 2, groups = m.inputs / m.group, steps = m.inputs / block;
  const auto* w = static_cast<const std::uint8_t*>(m.weight) + output * row;
  const std::uint8_t* zeros = asymmetric ? m.zeros + output * groups : nullptr;
  std::int64_t left = m.group / step4;  // number of steps until the next group's zero points
  StepScales<outputs, block> scales(m, output, x);
  Vec sum[4] = {Vec::of(0), Vec::of(0), Vec::of(0), Vec::of(0)};
  const auto step = [&](std::int64_t i, const std::uint8_t* from, std::int64_t row_of_w,
                        std::int64_t k, bool two) __attribute__((always_inline)) {
    const Words sums = Words::load(x.sums + i / step4 * Vec::width);
    for (int o = 0; o < outputs; ++o) {
      const std::uint8_t* z = zeros + o * groups;
      const Words start = asymmetric ? sums.times(-z[0], -z[two]) : sums.times_minus8();
      const Words exact = add4(start, from + o * row_of_w, x.words + i);
      sum[o] = Vec::fma(exact.floats(), scales.of(o, k, i, two), sum[o]);
    }
  };
  Prefetcher</*near=*/true> prefetcher(w, outputs * row, outputs * step4 / 2);
  scales_ahead(m.scales + output * groups, outputs * groups);
  for (std::int64_t first = 0, i = 0; first < steps; first += scales.most) {
    const std::int64_t count = steps - first < scales.most ? steps - first : scales.most;
    scales.fill(first, count);
    std::int64_t k = 0;
    for (; k + blocks <= count; k += blocks, i += step4, w += step4 / 2) {
      prefetcher.step();
      step(i, w, row, k, paired);
      scales.next(blocks);
      if (asymmetric && (paired || --left == 0)) {
        left = m.group / step4;
        zeros += blocks;
      }
    }
    if (k == count) continue;
    std::uint8_t rest[outputs][step4 / 2] = {};
    for (int o = 0; o < outputs; ++o)
      __builtin_memcpy(rest[o], w + o * row, static_cast<unsigned long>((m.inputs - i) / 2));
    step(i, rest[0], step4 / 2, k, false);
  }
  if constexpr (outputs == 4)
    totals(sum, to);
  else
    to[0] = total(sum[0]);
}

/// Used if the group size is not a multiple of 64 (blocks then have 32 inputs) or of the step size.
template <int block>
inline void int4_small(const Matrix& m, std::int64_t output, const Row& x, float* to) {
  constexpr int words = block / 4;
  const std::int64_t groups = m.inputs / m.group;
  const auto* w = static_cast<const std::uint8_t*>(m.weight) + output * m.inputs / 2;
  float sum = 0;
  for (std::int64_t i = 0; i < m.inputs; i += 32) {
    const std::int64_t group = output * groups + i / m.group;
    const std::int32_t zero = m.zeros ? m.zeros[group] : 8;
    std::int32_t exact = 0;
    const std::uint8_t* from = w + i / block * block / 2;
    for (int k = 0; k < 32; ++k) {
      const int at = static_cast<int>(i % block) + k, nibble = at / words;
      const std::int32_t q = (from[2 * (at % words) + nibble / 2] >> (nibble % 2 * 4)) & 15;
      exact += (q - zero) * x.words[i + k];
    }
    sum += static_cast<float>(exact) * (m.scales[group] * x.scales[i / word_block]);
  }
  *to = sum;
}

template <typename Tile, typename Single>
inline __attribute__((always_inline)) void integer_products(const Matrix& m, const void* prepared,
                                                            std::int64_t rows, std::int64_t begin,
                                                            std::int64_t end, float* to,
                                                            std::int64_t to_row, const Tile& tile,
                                                            const Single& single) {
  for (std::int64_t output = begin; output < end; output += tile_outputs)
    for (std::int64_t r = 0; r < rows; ++r) {
      const Row x = row_of(prepared, m.format, m.inputs, r);
      float* out = to + r * to_row + output - begin;
      if (end - output >= tile_outputs)
        tile(output, x, out);
      else
        for (std::int64_t o = output; o < end; ++o) single(o, x, out + o - output);
    }
}

// Tiles are inlined into the loop over tiles, because with short rows, calls and repeated setup
// cost a few percent of the run time.

template <int block>
inline void int8_products(const Matrix& m, const void* prepared, std::int64_t rows,
                          std::int64_t begin, std::int64_t end, float* to, std::int64_t to_row) {
  integer_products(
      m, prepared, rows, begin, end, to, to_row,
      [&](std::int64_t o, const Row& x, float* out)
          __attribute__((always_inline)) { int8_tile<tile_outputs, block>(m, o, x, out); },
      [&](std::int64_t o, const Row& x, float* out) { int8_tile<1, block>(m, o, x, out); });
}

template <bool asymmetric, bool paired>
inline void int4_products(const Matrix& m, const void* prepared, std::int64_t rows,
                          std::int64_t begin, std::int64_t end, float* to, std::int64_t to_row) {
  integer_products(
      m, prepared, rows, begin, end, to, to_row,
      [&](std::int64_t o, const Row& x, float* out) __attribute__((always_inline)) {
        int4_tile<tile_outputs, asymmetric, paired>(m, o, x, out);
      },
      [&](std::int64_t o, const Row& x, float* out) {
        int4_tile<1, asymmetric, paired>(m, o, x, out);
      });
}

/// If `planes` is set, the words are stored in the order in which int4 steps read them.
inline void prepare_words(bool planes, const float* from, std::int64_t inputs, void* prepared,
                          Format format) {
  const Row row = row_of(prepared, format, inputs, 0);
  auto* words = const_cast<std::int16_t*>(row.words);
  auto* scales = const_cast<float*>(row.scales);
  auto* sums = const_cast<std::int32_t*>(row.sums);
  for (std::int64_t begin = 0; begin < inputs; begin += word_block) {
    const std::int64_t count = inputs - begin < word_block ? inputs - begin : word_block;
    float values[word_block];
    if (count < word_block) __builtin_memset(values, 0, sizeof values);
    __builtin_memcpy(values, from + begin, static_cast<unsigned long>(count) * 4);
    const float greatest = abs_max(values);
    const float inverse = greatest > 0 ? max_int16 / greatest : 0;
    scales[begin / word_block] = greatest / max_int16;
    std::int16_t here[word_block];
    rounded_words(values, inverse, here);
    place_words(format, planes, here, begin, words, sums);
  }
}

inline bool small_blocks(const Matrix& m) { return m.group != 64 && m.group % 128 != 0; }

inline void prepare_integers(Format format, std::int64_t group, const float* from,
                             std::int64_t inputs, void* to) {
  prepare_words(format == Format::int4 && (group == 64 || group % 128 == 0), from, inputs, to,
                format);
}

inline void multiply_integers(const Matrix& m, const void* prepared, std::int64_t rows,
                              std::int64_t begin, std::int64_t end, float* to,
                              std::int64_t to_row) {
  if (m.format == Format::int8) {
    if (m.group % 128 == 0) return int8_products<128>(m, prepared, rows, begin, end, to, to_row);
    if (m.group % 64 == 0) return int8_products<64>(m, prepared, rows, begin, end, to, to_row);
    return int8_products<32>(m, prepared, rows, begin, end, to, to_row);
  }
  if (small_blocks(m)) {
    const auto single = [&](std::int64_t o, const Row& x, float* out) {
      m.group % 64 ? int4_small<32>(m, o, x, out) : int4_small<64>(m, o, x, out);
    };
    return integer_products(
        m, prepared, rows, begin, end, to, to_row,
        [&](std::int64_t o, const Row& x, float* out) {
          for (int i = 0; i < tile_outputs; ++i) single(o + i, x, out + i);
        },
        single);
  }
  const bool paired = m.group % step4 != 0;
  if (m.zeros && paired)
    return int4_products<true, true>(m, prepared, rows, begin, end, to, to_row);
  if (m.zeros) return int4_products<true, false>(m, prepared, rows, begin, end, to, to_row);
  if (paired) return int4_products<false, true>(m, prepared, rows, begin, end, to, to_row);
  int4_products<false, false>(m, prepared, rows, begin, end, to, to_row);
}

}  // namespace
ANYACCEL_ISA_END
#endif
