// Products of few rows with int8 and int4 matrices. Included inside an unnamed namespace under a target, after words_isa.h or
// bytes_isa.h, which say in what form rows are kept and how a step's products are summed up.

/// A row of words: the words, the scales of each word_block of them, and the sums of each step's where products begin with those.
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
  Vec sum[4] = {Vec::of(0), Vec::of(0), Vec::of(0), Vec::of(0)};
  Ahead<> ahead(w, outputs * inputs, outputs * block);
  scales_ahead(scales.at, outputs * groups);
  for (std::int64_t i = 0; i < inputs; i += block, w += block) {
    ahead.step();
    const Vec scale = Vec::of(x.scales[i / word_block]);
    const Words start = start8<block>(x.sums, i);
    for (int o = 0; o < outputs; ++o) {
      const Words exact = add8<block>(start, w + o * inputs, x.words, i);
      sum[o] = Vec::fma(exact.floats(), Vec::of(scales.of(o)) * scale, sum[o]);
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
    const Vec scale = Vec::of(x.scales[i / word_block]);
    const std::int64_t group = scales.at - m.scales - output * groups;
    for (int o = 0; o < outputs; ++o) {
      const std::uint8_t* z = zeros + o * groups + group;
      const Words start = asymmetric ? sums.times(-z[0], -z[two]) : sums.times_minus8();
      const Words exact = add4(start, from + o * row_of_w, x.words + i);
      const Vec own = two ? halves(scales.of(o), scales.at[o * groups + 1]) : Vec::of(scales.of(o));
      sum[o] = Vec::fma(exact.floats(), own * scale, sum[o]);
    }
  };
  std::int64_t i = 0;
  Ahead</*near=*/true> ahead(w, outputs * row, outputs * step4 / 2);
  scales_ahead(scales.at, outputs * groups);
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

/// `planes`: in the order of int4's steps.
inline void prepare_words(bool planes, const float* from, std::int64_t inputs, void* prepared, Format format) {
  const Row row = row_of(prepared, format, inputs, 0);
  auto* words = const_cast<std::int16_t*>(row.words);
  auto* scales = const_cast<float*>(row.scales);
  auto* sums = const_cast<std::int32_t*>(row.sums);
  for (std::int64_t begin = 0; begin < inputs; begin += word_block) {
    const std::int64_t count = inputs - begin < word_block ? inputs - begin : word_block;
    float values[word_block];
    if (count < word_block) __builtin_memset(values, 0, sizeof values);
    __builtin_memcpy(values, from + begin, static_cast<unsigned long>(count) * 4);
    const float greatest = greatest_magnitude(values);
    const float inverse = greatest > 0 ? greatest_word / greatest : 0;
    scales[begin / word_block] = greatest / greatest_word;
    std::int16_t here[word_block];
    rounded_words(values, inverse, here);
    place_words(format, planes, here, begin, words, sums);
  }
}

inline bool small_blocks(const Matrix& m) { return m.group != 64 && m.group % 128 != 0; }

inline void prepare_integers(Format format, std::int64_t group, const float* from, std::int64_t inputs, void* to) {
  prepare_words(format == Format::int4 && (group == 64 || group % 128 == 0), from, inputs, to, format);
}

inline void multiply_integers(const Matrix& m, const void* prepared, std::int64_t rows, std::int64_t begin,
                              std::int64_t end, float* to, std::int64_t to_row) {
  if (m.format == Format::int8)
    return integer_products(
        m, prepared, rows, begin, end, to, to_row,
        [&](std::int64_t o, const Row& x, float* out) { int8_tile<tile_outputs>(m, o, x, out); },
        [&](std::int64_t o, const Row& x, float* out) { int8_tile<1>(m, o, x, out); });
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
