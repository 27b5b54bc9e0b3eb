// Matrix products on pairs of bfloat16 elements, using AVX-512 BF16.
#pragma once

#if defined(__x86_64__)
#if !defined(ANYACCEL_ISA)
#define ANYACCEL_ISA avx512_bf16  // default for tools that parse only this file
#endif

#include "kernels/decoder/panel_tiles_isa.h"
#include "kernels/decoder/panels.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr int pair_vectors = panel_outputs / 16;

template <int rows>
inline __attribute__((always_inline)) void pair_tile(const char* panel, std::int64_t pairs,
                                                     const char* x, std::int64_t x_row, float* to,
                                                     std::int64_t to_row) {
  __m512 sum[rows][pair_vectors];
  for (auto& row : sum)
    for (auto& each : row) each = _mm512_setzero_ps();
  for (std::int64_t p = 0; p < pairs; ++p, panel += 4 * panel_outputs) {
    __m512bh w[pair_vectors];
    for (int v = 0; v < pair_vectors; ++v)
      w[v] = reinterpret_cast<__m512bh>(_mm512_load_si512(panel + 64 * v));
    for (int r = 0; r < rows; ++r) {
      int both;
      __builtin_memcpy(&both, x + r * x_row + 4 * p, 4);
      const auto each = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
      for (int v = 0; v < pair_vectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], w[v], each);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < pair_vectors; ++v) _mm512_storeu_ps(to + r * to_row + 16 * v, sum[r][v]);
}

}  // namespace

void multiply_pairs(const char* panel, std::int64_t pairs, const char* x, std::int64_t x_row,
                    std::int64_t rows, float* to, std::int64_t to_row) {
  each_tile(
      rows, [&](std::int64_t r, auto step) __attribute__((always_inline)) {
        pair_tile<decltype(step)::value>(panel, pairs, x + r * x_row, x_row, to + r * to_row,
                                         to_row);
      });
}

void row_to_pairs(const float* from, std::int64_t count, char* to) {
  std::int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m512bh words =
        _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i));
    _mm512_storeu_si512(to + 2 * i, reinterpret_cast<__m512i>(words));
  }
  if (i == count) return;
  const auto rest = static_cast<unsigned>(count - i);  // below 32
  const auto low = static_cast<__mmask16>(rest >= 16 ? 0xffffU : (1U << rest) - 1);
  const auto high = static_cast<__mmask16>(rest > 16 ? (1U << (rest - 16)) - 1 : 0U);
  const __m512bh words = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, from + i + 16),
                                             _mm512_maskz_loadu_ps(low, from + i));
  _mm512_mask_storeu_epi16(to + 2 * i, (1U << rest) - 1, reinterpret_cast<__m512i>(words));
}

/// Interleaves the values of two consecutive inputs.
void turned_pairs(const char* values, std::int64_t inputs, std::int64_t columns, std::int64_t begin,
                  char* panel) {
  const std::int64_t count = columns - begin < panel_outputs ? columns - begin : panel_outputs;
  for (std::int64_t i = 0; i < inputs; i += 2, panel += 4 * panel_outputs)
    for (int v = 0; v < pair_vectors; ++v) {
      const std::int64_t left = count - 16 * v;
      const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffffU
                                               : left > 0 ? (1U << left) - 1
                                                          : 0U);
      const auto words = [&](std::int64_t at) {
        if (at >= inputs) return _mm512_setzero_si512();
        return _mm512_cvtepu16_epi32(
            _mm256_maskz_loadu_epi16(mask, values + 2 * (at * columns + begin + 16 * v)));
      };
      _mm512_store_si512(panel + 64 * v,
                         _mm512_or_si512(words(i), _mm512_slli_epi32(words(i + 1), 16)));
    }
}

ANYACCEL_ISA_END
#endif
