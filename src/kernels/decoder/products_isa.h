// Matrix products with few rows.
//
// Weights are read from memory once, in order, and multiplied by all rows while they are in the
// cache. The summation order of a product does not depend on other rows: the partial sums in vector
// lanes are added up in a fixed order. For a single row in this layout, the tiled matrix products
// of simd/products_isa.h take 2.5 times as long (benchmarks/small_products.bench.py).
#if defined(ANYACCEL_DECODER_PRODUCTS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_PRODUCTS_ISA_H)
#undef ANYACCEL_DECODER_PRODUCTS_ISA_H
#else
#define ANYACCEL_DECODER_PRODUCTS_ISA_H
#endif

#include "kernels/decoder/integer_products_isa.h"
#include "kernels/decoder/matrix.h"
#include "kernels/decoder/prefetch_isa.h"
#include "kernels/simd/element.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

// Number of inputs per step, for floating-point formats.
constexpr std::int64_t pair = 2 * Vec::width;

template <typename T>
inline void load_pair(const T* w, Vec& a, Vec& b) {
  a = Vec::load(w);
  b = Vec::load(w + Vec::width);
}
/// Loads even and odd elements into separate vectors, so that no element has to move to a different
/// lane.
inline void load_pair(const Bf16* w, Vec& a, Vec& b) {
  typedef std::uint32_t Pairs __attribute__((vector_size(4 * ANYACCEL_WIDTH)));
  Pairs both;
  __builtin_memcpy(&both, w, sizeof both);
  const Pairs low = both << 16, high = both & 0xffff0000U;
  __builtin_memcpy(&a.x, &low, sizeof a.x);
  __builtin_memcpy(&b.x, &high, sizeof b.x);
}

template <typename T, int rows, int outputs>
inline __attribute__((always_inline)) void float_tile(const T* w, std::int64_t inputs,
                                                      const float* x, std::int64_t x_row, float* to,
                                                      std::int64_t to_row) {
  Vec sum[rows][outputs][2];
  for (auto& row : sum)
    for (auto& output : row) output[0] = output[1] = Vec::of(0);
  const auto step = [&](const T* from, std::int64_t row_of_w, std::int64_t i)
      __attribute__((always_inline)) {
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
  Prefetcher<> prefetcher(w, outputs * inputs * element, outputs * pair * element);
  for (; i + pair <= inputs; i += pair) {
    prefetcher.step();
    step(w + i, inputs, i);
  }
  if (i < inputs) {
    T rest[outputs][pair] = {};
    for (int o = 0; o < outputs; ++o)
      __builtin_memcpy(rest[o], w + o * inputs + i,
                       static_cast<unsigned long>(inputs - i) * sizeof(T));
    step(rest[0], pair, i);
  }
  for (int r = 0; r < rows; ++r) {
    if constexpr (outputs == 4) {
      const Vec all[4] = {sum[r][0][0] + sum[r][0][1], sum[r][1][0] + sum[r][1][1],
                          sum[r][2][0] + sum[r][2][1], sum[r][3][0] + sum[r][3][1]};
      totals(all, to + r * to_row);
    } else {
      for (int o = 0; o < outputs; ++o) to[r * to_row + o] = total(sum[r][o][0] + sum[r][o][1]);
    }
  }
}

template <typename T>
inline void float_products(const Matrix& m, const float* x, std::int64_t rows, std::int64_t begin,
                           std::int64_t end, float* to, std::int64_t to_row) {
  const std::int64_t x_row = prepared_bytes(m.format, m.inputs) / 4;
  for (std::int64_t output = begin; output < end; output += tile_outputs) {
    const T* w = static_cast<const T*>(m.weight) + output * m.inputs;
    float* out = to + output - begin;
    std::int64_t r = 0;
    if (end - output >= tile_outputs) {
      for (; r + 2 <= rows; r += 2)
        float_tile<T, 2, tile_outputs>(w, m.inputs, x + r * x_row, x_row, out + r * to_row, to_row);
      for (; r < rows; ++r)
        float_tile<T, 1, tile_outputs>(w, m.inputs, x + r * x_row, x_row, out + r * to_row, to_row);
    } else {
      for (; r < rows; ++r)
        for (std::int64_t o = 0; o < end - output; ++o)
          float_tile<T, 1, 1>(w + o * m.inputs, m.inputs, x + r * x_row, x_row,
                              out + r * to_row + o, to_row);
    }
  }
}

template <bool even_odd>
inline void prepare_floats(const float* from, std::int64_t inputs, float* to) {
  for (std::int64_t i = 0; i < inputs; i += pair) {
    float here[pair] = {};
    const std::int64_t count = inputs - i < pair ? inputs - i : pair;
    for (std::int64_t k = 0; k < count; ++k)
      here[even_odd ? k % 2 * Vec::width + k / 2 : k] = from[i + k];
    __builtin_memcpy(to + i, here, sizeof here);
  }
}

}  // namespace

void prepare(Format format, std::int64_t group, const float* from, std::int64_t rows,
             std::int64_t inputs, void* prepared) {
  for (std::int64_t r = 0; r < rows; ++r) {
    void* to = static_cast<char*>(prepared) + r * prepared_bytes(format, inputs);
    const float* x = from + r * inputs;
    if (format == Format::bf16)
      prepare_floats<true>(x, inputs, static_cast<float*>(to));
    else if (format == Format::f32 || format == Format::fp16)
      prepare_floats<false>(x, inputs, static_cast<float*>(to));
    else
      prepare_integers(format, group, x, inputs, to);
  }
}

void multiply(const Matrix& m, const void* prepared, std::int64_t rows, std::int64_t begin,
              std::int64_t end, float* to, std::int64_t to_row) {
  const auto* floats = static_cast<const float*>(prepared);
  switch (m.format) {
    case Format::f32: return float_products<float>(m, floats, rows, begin, end, to, to_row);
    case Format::bf16: return float_products<Bf16>(m, floats, rows, begin, end, to, to_row);
    case Format::fp16: return float_products<Fp16>(m, floats, rows, begin, end, to, to_row);
    case Format::int8:
    case Format::int4: return multiply_integers(m, prepared, rows, begin, end, to, to_row);
  }
}

ANYACCEL_ISA_END
#endif
