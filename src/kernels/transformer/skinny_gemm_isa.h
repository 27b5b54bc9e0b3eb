// Matrix products of a few rows with a weight matrix [outputs][inputs].
//
// The weight is read from memory once. Each of its elements is multiplied by all rows while it is
// in a register or in the L1 cache.
#if defined(ANYACCEL_TRANSFORMER_SKINNY_GEMM_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRANSFORMER_SKINNY_GEMM_ISA_H)
#undef ANYACCEL_TRANSFORMER_SKINNY_GEMM_ISA_H
#else
#define ANYACCEL_TRANSFORMER_SKINNY_GEMM_ISA_H
#endif

#include "kernels/simd/products_isa.h"
#include "kernels/simd/transpose_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/transformer/skinny_gemm.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr std::int64_t block = 16;  // side length of a transposed block
// Number of weight rows whose strip stays in the L1 cache.
constexpr std::int64_t near_outputs = 64;

inline std::int64_t padded_rows(const SkinnyGemm& p) {
  return (p.rows + block - 1) / block * block;
}

}  // namespace

void pack(const SkinnyGemm& p, const float* from, std::int64_t begin, std::int64_t end,
          float* packed) {
  const std::int64_t rows = padded_rows(p);
  for (std::int64_t row = 0; row < rows; row += block)
    for (std::int64_t input = begin; input < end; input += block)
      transpose_rows(from + row * p.inputs + input, p.inputs, p.rows - row, block, block, 1,
                     packed + input * rows + row, rows);
}

void forward(const SkinnyGemm& p, const float* packed, const float* bias, std::int64_t output,
             float* to) {
  alignas(64) float products[skinny_gemm_outputs * max_skinny_rows];
  const std::int64_t rows = padded_rows(p);
  multiply<false, false>({skinny_gemm_outputs, rows, p.inputs, p.weight + output * p.inputs,
                          p.inputs, packed, rows, products, rows, nullptr, 1, 0, 0});
  for (std::int64_t row = 0; row < rows; row += block)
    for (std::int64_t i = 0; i < skinny_gemm_outputs; i += block) {
      float here[block][block];
      transpose_rows(products + i * rows + row, rows, block, block, block, 1, here[0], block);
      for (std::int64_t r = 0; r < block && row + r < p.rows; ++r)
        for (std::int64_t j = 0; j < block; j += Vec::width) {
          const Vec value = Vec::load(here[r] + j);
          (bias ? value + Vec::load(bias + output + i + j) : value)
              .store(to + (row + r) * p.outputs + output + i + j);
        }
    }
}

void backward(const SkinnyGemm& p, const float* from, bool add, std::int64_t begin,
              std::int64_t end, float* to) {
  constexpr std::int64_t strip = skinny_gemm_outputs;
  for (std::int64_t output = 0; output < p.outputs; output += near_outputs) {
    const std::int64_t count =
        p.outputs - output < near_outputs ? p.outputs - output : near_outputs;
    for (std::int64_t input = begin; input < end; input += strip) {
      const float* const weight = p.weight + output * p.inputs + input;
      // The hardware prefetcher does not follow the lines of a strip, because they are a whole
      // weight row apart.
      const float* const next =
          input + strip < end ? weight + strip : weight + count * p.inputs - (input - begin);
      if (input + strip < end || output + count < p.outputs)
        for (std::int64_t i = 0; i < count; ++i) {
          __builtin_prefetch(next + i * p.inputs, 0, 2);
          __builtin_prefetch(next + i * p.inputs + block, 0, 2);
        }
      const Product product = {p.rows, strip,    count,      from + output, p.outputs,
                               weight, p.inputs, to + input, p.inputs,      nullptr,
                               1,      0,        0};
      if (add || output)
        multiply<false, true>(product);
      else
        multiply<false, false>(product);
    }
  }
}

ANYACCEL_ISA_END
#endif
