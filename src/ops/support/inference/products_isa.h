// Products of few rows with a matrix. Included by products.cpp inside a namespace and under a target.
//
// The weights are read once from memory, in their order, and go through the rows while they are near. A product is summed up in one
// order, whatever is beside it: Vec::width sums next to each other, then their halves.
namespace {

#include "ops/support/inference/sums_isa.h"
#include "ops/support/inference/words_isa.h"

constexpr std::int64_t pair = 2 * Vec::width;  // inputs of one step of the float formats

/// Asks early for the weights that come after a tile's, a part with each step of the tile: with rows that are shorter than a page
/// the processor's own prefetching, which follows each of the rows, is late at every row's end. What is far ahead would be gone again
/// from the first-level cache when it is wanted, so it waits in the second one.
class Ahead {
 public:
  /// Of a tile of `bytes` at `weights`, which are gone through in steps of `step_bytes`.
  Ahead(const void* weights, std::int64_t bytes, std::int64_t step_bytes)
      : at_(static_cast<const char*>(weights) + (bytes > nearest ? bytes : nearest)),
        step_(step_bytes),
        far_(bytes > farthest_first_level) {}
  void step() {
    if (far_)
      for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(at_ + i, 0, 2);
    else
      for (std::int64_t i = 0; i < step_; i += 64) __builtin_prefetch(at_ + i, 0, 3);
    at_ += step_;
  }

 private:
  static constexpr std::int64_t nearest = 4096, farthest_first_level = 6144;
  const char* at_;
  std::int64_t step_;
  bool far_;
};

inline std::int64_t rounded(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

template <typename T>
inline void load_pair(const T* w, Vec& a, Vec& b) {
  a = Vec::load(w);
  b = Vec::load(w + Vec::width);
}
/// The even ones and the odd ones: no word has to move to another lane.
inline void load_pair(const Bf16* w, Vec& a, Vec& b) {
  typedef std::uint32_t Pairs __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
  Pairs both;
  __builtin_memcpy(&both, w, sizeof both);
  const Pairs low = both << 16, high = both & 0xffff0000U;
  __builtin_memcpy(&a.x, &low, sizeof a.x);
  __builtin_memcpy(&b.x, &high, sizeof b.x);
}

template <typename T, int rows, int outputs>
inline __attribute__((always_inline)) void float_tile(const T* w, std::int64_t inputs, const float* x,
                                                      std::int64_t x_row, float* to, std::int64_t to_row) {
  Vec sum[rows][outputs][2];
  for (auto& row : sum)
    for (auto& output : row) output[0] = output[1] = Vec::of(0);
  const auto step = [&](const T* from, std::int64_t row_of_w, std::int64_t i) __attribute__((always_inline)) {
    for (int o = 0; o < outputs; ++o) {
      Vec a, b;
      load_pair(from + o * row_of_w, a, b);
      for (int r = 0; r < rows; ++r) {
        sum[r][o][0] = Vec::fma(a, Vec::load(x + r * x_row + i), sum[r][o][0]);
        sum[r][o][1] = Vec::fma(b, Vec::load(x + r * x_row + i + Vec::width), sum[r][o][1]);
      }
    }
  };
  std::int64_t i = 0;
  constexpr std::int64_t element = sizeof(T);
  Ahead ahead(w, outputs * inputs * element, outputs * pair * element);
  for (; i + pair <= inputs; i += pair) {
    ahead.step();
    step(w + i, inputs, i);
  }
  if (i < inputs) {
    T rest[outputs][pair] = {};
    for (int o = 0; o < outputs; ++o)
      __builtin_memcpy(rest[o], w + o * inputs + i, static_cast<unsigned long>(inputs - i) * sizeof(T));
    step(rest[0], pair, i);
  }
  for (int r = 0; r < rows; ++r) {
    if constexpr (outputs == 4) {
      const Vec all[4] = {sum[r][0][0] + sum[r][0][1], sum[r][1][0] + sum[r][1][1], sum[r][2][0] + sum[r][2][1],
                          sum[r][3][0] + sum[r][3][1]};
      totals(all, to + r * to_row);
    } else {
      for (int o = 0; o < outputs; ++o) to[r * to_row + o] = total(sum[r][o][0] + sum[r][o][1]);
    }
  }
}

template <typename T>
inline void float_products(const Matrix& m, const float* x, std::int64_t rows, std::int64_t begin, std::int64_t end,
                           float* to, std::int64_t to_row) {
  const std::int64_t x_row = prepared_bytes(m.format, m.inputs) / 4;
  for (std::int64_t output = begin; output < end; output += tile_outputs) {
    const T* w = static_cast<const T*>(m.weight) + output * m.inputs;
    float* out = to + output - begin;
    std::int64_t r = 0;
    if (end - output >= tile_outputs) {
      for (; r + 2 <= rows; r += 2)
        float_tile<T, 2, tile_outputs>(w, m.inputs, x + r * x_row, x_row, out + r * to_row, to_row);
      for (; r < rows; ++r) float_tile<T, 1, tile_outputs>(w, m.inputs, x + r * x_row, x_row, out + r * to_row, to_row);
    } else {
      for (; r < rows; ++r)
        for (std::int64_t o = 0; o < end - output; ++o)
          float_tile<T, 1, 1>(w + o * m.inputs, m.inputs, x + r * x_row, x_row, out + r * to_row + o, to_row);
    }
  }
}

/// A row of words: the words, the scales of each word_block of them, and for int4 the sums of each step's.
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

/// Where the scales of a tile's outputs lie, from one group to the next.
struct TileScales {
  const float* at;
  std::int64_t groups;
  std::int64_t blocks, left;  ///< of a group

  float of(int output) const { return at[output * groups]; }
  void next() {
    if (--left) return;
    left = blocks;
    ++at;
  }
};

/// `block` inputs at a time, which have one scale of the weights and one of the row.
template <int outputs, int block>
inline __attribute__((always_inline)) void int8_tile(const Matrix& m, std::int64_t output, const Row& x, float* to) {
  const std::int64_t inputs = m.inputs, groups = inputs / m.group;
  const auto* w = static_cast<const std::int8_t*>(m.weight) + output * inputs;
  TileScales scales{m.scales + output * groups, groups, m.group / block, m.group / block};
  const std::int16_t* words = x.words;
  Vec sum[4] = {Vec::of(0), Vec::of(0), Vec::of(0), Vec::of(0)};
  Ahead ahead(w, outputs * inputs, outputs * block);
  for (std::int64_t i = 0; i < inputs; i += block, w += block, words += block) {
    ahead.step();
    const float scale = x.scales[i / word_block];
    for (int o = 0; o < outputs; ++o) {
      Words exact = Words::zero();
      for (int k = 0; k < block; k += 32) exact.add8(w + o * inputs + k, words + k);
      sum[o] = Vec::fma(exact.floats(), Vec::of(scales.of(o) * scale), sum[o]);
    }
    scales.next();
  }
  if constexpr (outputs == 4)
    totals(sum, to);
  else
    to[0] = total(sum[0]);
}

template <int outputs>
inline __attribute__((always_inline)) void int8_tile(const Matrix& m, std::int64_t output, const Row& x, float* to) {
  if (m.group % 128 == 0)
    int8_tile<outputs, 128>(m, output, x, to);
  else if (m.group % 64 == 0)
    int8_tile<outputs, 64>(m, output, x, to);
  else
    int8_tile<outputs, 32>(m, output, x, to);
}

/// `paired`: a step's two blocks are of two groups.
template <int outputs, bool asymmetric, bool paired>
inline __attribute__((always_inline)) void int4_tile(const Matrix& m, std::int64_t output, const Row& x, float* to) {
  const std::int64_t row = m.inputs / 2, groups = m.inputs / m.group;
  const auto* w = static_cast<const std::uint8_t*>(m.weight) + output * row;
  const std::int64_t steps = paired ? 1 : m.group / step4;
  TileScales scales{m.scales + output * groups, groups, steps, steps};
  const std::uint8_t* zeros = asymmetric ? m.zeros + output * groups : nullptr;
  Vec sum[4] = {Vec::of(0), Vec::of(0), Vec::of(0), Vec::of(0)};
  const auto step = [&](std::int64_t i, const std::uint8_t* from, std::int64_t row_of_w, bool two)
      __attribute__((always_inline)) {
    const Words sums = Words::load(x.sums + i / step4 * Vec::width);
    const float scale = x.scales[i / word_block];
    const std::int64_t group = scales.at - m.scales - output * groups;
    for (int o = 0; o < outputs; ++o) {
      const std::uint8_t* z = zeros + o * groups + group;
      const Words start = asymmetric ? sums.times(-z[0], -z[two]) : sums.times_minus8();
      const Words exact = add4(start, from + o * row_of_w, x.words + i);
      const float first = scales.of(o) * scale;
      sum[o] =
          Vec::fma(exact.floats(), two ? halves(first, scales.at[o * groups + 1] * scale) : Vec::of(first), sum[o]);
    }
  };
  std::int64_t i = 0;
  Ahead ahead(w, outputs * row, outputs * step4 / 2);
  for (; i + step4 <= m.inputs; i += step4, w += step4 / 2) {
    ahead.step();
    step(i, w, row, paired);
    if (paired)
      scales.at += 2;
    else
      scales.next();
  }
  if (i < m.inputs) {
    std::uint8_t rest[outputs][step4 / 2] = {};
    for (int o = 0; o < outputs; ++o)
      __builtin_memcpy(rest[o], w + o * row, static_cast<unsigned long>((m.inputs - i) / 2));
    step(i, rest[0], step4 / 2, false);
  }
  if constexpr (outputs == 4)
    totals(sum, to);
  else
    to[0] = total(sum[0]);
}

template <int outputs, bool asymmetric>
inline __attribute__((always_inline)) void int4_tile(const Matrix& m, std::int64_t output, const Row& x, float* to) {
  if (m.group % step4 == 0)
    int4_tile<outputs, asymmetric, false>(m, output, x, to);
  else
    int4_tile<outputs, asymmetric, true>(m, output, x, to);
}

template <int outputs>
inline void int4_tile(const Matrix& m, std::int64_t output, const Row& x, float* to) {
  if (m.zeros)
    int4_tile<outputs, true>(m, output, x, to);
  else
    int4_tile<outputs, false>(m, output, x, to);
}

/// Of groups whose blocks are half as long, or lie across steps.
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

inline bool small_blocks(const Matrix& m) { return m.group != 64 && m.group % 128 != 0; }

template <typename Tile, typename Single>
inline void integer_products(const Matrix& m, const void* prepared, std::int64_t rows, std::int64_t begin,
                             std::int64_t end, float* to, std::int64_t to_row, const Tile& tile, const Single& single) {
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

/// The greatest magnitude becomes 32767.
inline void prepare_words(bool planes, const float* from, std::int64_t inputs, void* prepared, Format format) {
  const Row row = row_of(prepared, format, inputs, 0);
  auto* words = const_cast<std::int16_t*>(row.words);
  auto* scales = const_cast<float*>(row.scales);
  auto* sums = const_cast<std::int32_t*>(row.sums);
  for (std::int64_t begin = 0; begin < inputs; begin += word_block) {
    const std::int64_t count = inputs - begin < word_block ? inputs - begin : word_block;
    float greatest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = __builtin_fabsf(from[begin + i]);
      greatest = value > greatest ? value : greatest;
    }
    const float scale = greatest / 32767.0F, inverse = greatest > 0 ? 32767.0F / greatest : 0;
    scales[begin / word_block] = scale;
    std::int16_t here[word_block] = {};
    for (std::int64_t i = 0; i < count; ++i)
      here[i] = static_cast<std::int16_t>(__builtin_rintf(from[begin + i] * inverse));
    if (!planes) {
      __builtin_memcpy(words + begin, here, sizeof here);
      continue;
    }
    for (std::int64_t i = 0; i < word_block; ++i) words[begin + i / step4 * step4 + place4(i % step4)] = here[i];
    for (std::int64_t i = begin; i < begin + word_block; i += step4) {
      std::int32_t lanes[Vec::width] = {};
      for (std::int64_t k = 0; k < step4; ++k) {
        // As the products' sums are placed: pairs of words, plane by plane.
        const std::int64_t lane = ANYACCEL_WIDTH >= 8 ? k / 2 % Vec::width : k % 16 % Vec::width;
        lanes[lane] += words[i + k];
      }
      __builtin_memcpy(sums + i / step4 * Vec::width, lanes, sizeof lanes);
    }
  }
}

template <bool even_odd>
inline void prepare_floats(const float* from, std::int64_t inputs, float* to) {
  for (std::int64_t i = 0; i < inputs; i += pair) {
    float here[pair] = {};
    const std::int64_t count = inputs - i < pair ? inputs - i : pair;
    for (std::int64_t k = 0; k < count; ++k) here[even_odd ? k % 2 * Vec::width + k / 2 : k] = from[i + k];
    __builtin_memcpy(to + i, here, sizeof here);
  }
}

}  // namespace

void prepare(Format format, std::int64_t group, const float* from, std::int64_t rows, std::int64_t inputs,
             void* prepared) {
  for (std::int64_t r = 0; r < rows; ++r) {
    void* to = static_cast<char*>(prepared) + r * prepared_bytes(format, inputs);
    const float* x = from + r * inputs;
    if (format == Format::bf16)
      prepare_floats<true>(x, inputs, static_cast<float*>(to));
    else if (format == Format::f32 || format == Format::fp16)
      prepare_floats<false>(x, inputs, static_cast<float*>(to));
    else
      prepare_words(format == Format::int4 && (group == 64 || group % 128 == 0), x, inputs, to, format);
  }
}

void multiply(const Matrix& m, const void* prepared, std::int64_t rows, std::int64_t begin, std::int64_t end, float* to,
              std::int64_t to_row) {
  const auto* floats = static_cast<const float*>(prepared);
  switch (m.format) {
    case Format::f32: return float_products<float>(m, floats, rows, begin, end, to, to_row);
    case Format::bf16: return float_products<Bf16>(m, floats, rows, begin, end, to, to_row);
    case Format::fp16: return float_products<Fp16>(m, floats, rows, begin, end, to, to_row);
    case Format::int8:
      return integer_products(
          m, prepared, rows, begin, end, to, to_row,
          [&](std::int64_t o, const Row& x, float* out) { int8_tile<tile_outputs>(m, o, x, out); },
          [&](std::int64_t o, const Row& x, float* out) { int8_tile<1>(m, o, x, out); });
    case Format::int4: break;
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
  integer_products(
      m, prepared, rows, begin, end, to, to_row,
      [&](std::int64_t o, const Row& x, float* out) { int4_tile<tile_outputs>(m, o, x, out); },
      [&](std::int64_t o, const Row& x, float* out) { int4_tile<1>(m, o, x, out); });
}
