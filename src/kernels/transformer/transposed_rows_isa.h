// Matrix products of a few rows with a weight matrix [inputs][outputs], computed as weighted sums
// of the weight's rows. The tiled matrix products of simd/products_isa.h take 1.2 times as long
// (benchmarks/small_products.bench.py), and support only float32 and whole vectors.
#if defined(ANYACCEL_TRANSFORMER_TRANSPOSED_ROWS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRANSFORMER_TRANSPOSED_ROWS_ISA_H)
#undef ANYACCEL_TRANSFORMER_TRANSPOSED_ROWS_ISA_H
#else
#define ANYACCEL_TRANSFORMER_TRANSPOSED_ROWS_ISA_H
#endif

#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/transformer/transposed_rows.h"

ANYACCEL_ISA_BEGIN
namespace {

/// Adds at most eight rows of the weight, each multiplied by an element of `x`, to `sums`. If
/// `first` is set, overwrites `sums` instead.
template <typename S, bool first>
inline void add_eight(const S* weight, std::int64_t outputs, const float* x, std::int64_t count,
                      float* sums) {
  each_vector(
      outputs, [&](std::int64_t o, std::int64_t n) __attribute__((always_inline)) {
        Vec sum = first ? Vec::of(0) : load_some(sums + o, n);
        for (std::int64_t i = 0; i < count; ++i)
          sum = Vec::fma(load_some(weight + i * outputs + o, n), Vec::of(x[i]), sum);
        store_some(sum, sums + o, n);
      });
}

}  // namespace

template <typename S>
void turned_rows(const TurnedProduct& p, std::int64_t part, float* sums) {
  const std::int64_t size = turned_part(p.inputs), begin = part * size;
  const std::int64_t end = begin + size < p.inputs ? begin + size : p.inputs;
  for (std::int64_t i = begin; i < end; i += 8) {
    const std::int64_t count = end - i < 8 ? end - i : 8;
    const S* const weight = static_cast<const S*>(p.weight) + i * p.outputs;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      const float* const x = p.from + row * p.inputs + i;
      if (i == begin)
        add_eight<S, true>(weight, p.outputs, x, count, sums + row * p.outputs);
      else
        add_eight<S, false>(weight, p.outputs, x, count, sums + row * p.outputs);
    }
  }
}

inline void added_parts(std::int64_t parts, std::int64_t apart, std::int64_t begin,
                        std::int64_t end, float* sums) {
  each_vector(
      end - begin, [&](std::int64_t o, std::int64_t n) __attribute__((always_inline)) {
        float* const at = sums + begin + o;
        Vec sum = load_some(at, n);
        for (std::int64_t part = 1; part < parts; ++part)
          sum = sum + load_some(at + part * apart, n);
        store_some(sum, at, n);
      });
}

ANYACCEL_ISA_END
#endif
