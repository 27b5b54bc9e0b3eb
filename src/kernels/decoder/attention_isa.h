// Attention for a single query over a KV cache. In this case, the panel-based matrix products of
// panel_attention.h take 3 times as long (benchmarks/small_products.bench.py).
#if defined(ANYACCEL_DECODER_ATTENTION_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_ATTENTION_ISA_H)
#undef ANYACCEL_DECODER_ATTENTION_ISA_H
#else
#define ANYACCEL_DECODER_ATTENTION_ISA_H
#endif

#include "kernels/decoder/rows.h"
#include "kernels/simd/math_isa.h"
#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

/// Computes the scores of the positions [first, first + 4) out of `count` positions. Positions past
/// the end get the score of the last position.
template <typename T>
inline __attribute__((always_inline)) void four_scores(const T* keys, std::int64_t dim,
                                                       std::int64_t first, std::int64_t count,
                                                       const float* query, float* to) {
  const T* row[4];
  for (std::int64_t i = 0; i < 4; ++i)
    row[i] = keys + (first + i < count ? first + i : count - 1) * dim;
  Vec sum[4] = {Vec::of(0), Vec::of(0), Vec::of(0), Vec::of(0)};
  each_vector(
      dim, [&](std::int64_t d, std::int64_t n) __attribute__((always_inline)) {
        const Vec q = load_some(query + d, n);
        for (int i = 0; i < 4; ++i) sum[i] = Vec::fma(q, load_some(row[i] + d, n), sum[i]);
      });
  totals(sum, to);
}

/// Computes elements [d, d + vectors * width) of the weighted sum of values. Even and odd positions
/// are summed separately.
template <typename T, int vectors>
inline __attribute__((always_inline)) void mix(const T* values, std::int64_t dim, std::int64_t d,
                                               std::int64_t n, std::int64_t count,
                                               const float* shares, Vec factor, float* out) {
  Vec sum[2][vectors];
  for (auto& part : sum)
    for (Vec& each : part) each = Vec::of(0);
  const auto add = [&](std::int64_t p, int part) __attribute__((always_inline)) {
    const Vec share = Vec::of(shares[p]);
    for (int i = 0; i < vectors; ++i) {
      const T* at = values + p * dim + d + i * Vec::width;
      sum[part][i] = Vec::fma(share, vectors == 1 ? load_some(at, n) : Vec::load(at), sum[part][i]);
    }
  };
  std::int64_t p = 0;
  for (; p + 2 <= count; p += 2) add(p, 0), add(p + 1, 1);
  if (p < count) add(p, 0);
  for (int i = 0; i < vectors; ++i)
    store_some((sum[0][i] + sum[1][i]) * factor, out + d + i * Vec::width,
               vectors == 1 ? n : Vec::width);
}

/// Scales and soft-caps the scores, replaces them with e^(score - maximum), and returns the sum of
/// the results. Scores here have no added mask, so it is safe to multiply by log2(e) before
/// subtracting the maximum; the softmax of masked attention must subtract first.
inline float shares_of(float scale_by, float softcap, float* scores, std::int64_t count) {
  Vec most = Vec::of(-infinity);
  const Vec scale = Vec::of(scale_by * log2_e);
  each_vector(
      count, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        Vec s = load_some(scores + i, n) * scale;
        if (softcap > 0) {
          // tanh(y) = 1 - 2 / (1 + e^(2 y)), where y = s / softcap.
          const Vec e = exp2_of(min_of(s * Vec::of(2 / softcap), Vec::of(126)));
          s = minus(Vec::of(1), Vec::of(2) / (Vec::of(1) + e)) * Vec::of(softcap * log2_e);
        }
        store_some(s, scores + i, n);
        if (n == Vec::width) most = max_of(most, s);
      });
  float top = greatest(most);
  for (std::int64_t i = count / Vec::width * Vec::width; i < count; ++i)
    top = scores[i] > top ? scores[i] : top;
  const Vec below = Vec::of(top);
  Vec sum = Vec::of(0);
  each_vector(
      count, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        store_some(exp2_of(minus(load_some(scores + i, n), below)), scores + i, n);
        sum = sum + load_some(scores + i, n);
      });
  return total(sum);
}

template <typename T>
inline void attend_cache(const CachedHead& h, const float* query, float* scores, float* out) {
  const std::int64_t count = h.end - h.begin;
  const T* keys = static_cast<const T*>(h.keys) + h.begin * h.dim;
  const T* values = static_cast<const T*>(h.values) + h.begin * h.dim;
  for (std::int64_t p = 0; p < count; p += 4) four_scores(keys, h.dim, p, count, query, scores + p);
  const Vec factor = Vec::of(1.0F / shares_of(h.scale, h.softcap, scores, count));
  std::int64_t d = 0;
  for (; d + 4 * Vec::width <= h.dim; d += 4 * Vec::width)
    mix<T, 4>(values, h.dim, d, Vec::width, count, scores, factor, out);
  for (; d < h.dim; d += Vec::width)
    mix<T, 1>(values, h.dim, d, h.dim - d < Vec::width ? h.dim - d : Vec::width, count, scores,
              factor, out);
}

}  // namespace

float attention_shares(float scale, float softcap, float* scores, std::int64_t count) {
  return shares_of(scale, softcap, scores, count);
}

void attend(const CachedHead& h, const float* query, float* scores, float* out) {
  if (h.type == Element::f32) return attend_cache<float>(h, query, scores, out);
  if (h.type == Element::bf16) return attend_cache<Bf16>(h, query, scores, out);
  attend_cache<Fp16>(h, query, scores, out);
}

ANYACCEL_ISA_END
#endif
