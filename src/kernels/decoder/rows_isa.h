// Norms, rotary embeddings and activations for rows. This file includes attention_isa.h, because
// rows.cpp compiles a single file for each instruction set.
#if defined(ANYACCEL_DECODER_ROWS_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_DECODER_ROWS_ISA_H)
#undef ANYACCEL_DECODER_ROWS_ISA_H
#else
#define ANYACCEL_DECODER_ROWS_ISA_H
#endif

#include "kernels/decoder/attention_isa.h"
#include "kernels/decoder/rows.h"
#include "kernels/simd/math_isa.h"
#include "kernels/simd/normal_isa.h"
#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

inline Vec load_values(const Values& values, std::int64_t i, std::int64_t n) {
  if (values.type == Element::f32) return load_some(static_cast<const float*>(values.data) + i, n);
  if (values.type == Element::bf16) return load_some(static_cast<const Bf16*>(values.data) + i, n);
  return load_some(static_cast<const Fp16*>(values.data) + i, n);
}

/// Returns a / (1 + 2^-b). The exponent is clamped, so the result tends to 0 for large negative b.
inline Vec sigmoid_times(Vec a, Vec b) {
  return a / (Vec::of(1) + exp2_of(min_of(b * Vec::of(-1), Vec::of(126))));
}

inline Vec gelu_tanh_of(Vec x) {
  const Vec cube = x * x * x;
  const Vec z = Vec::fma(cube, Vec::of(0.044715F), x) * Vec::of(0.7978845608F);
  return sigmoid_times(x, z * Vec::of(2 * log2_e));
}

inline Vec gelu_erf_of(Vec x) {
  Vec density;
  return x * normal_below(x, &density);
}

template <typename Function>
inline __attribute__((always_inline)) void gate_with(float* a, const float* b, std::int64_t columns,
                                                     const Function& function) {
  each_vector(
      columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        const Vec value = function(load_some(a + i, n));
        store_some(b ? value * load_some(b + i, n) : value, a + i, n);
      });
}

}  // namespace

void norm(const Norm& p, const float* from, std::int64_t columns, float* to) {
  Vec squares = Vec::of(0), sum = Vec::of(0);
  Vec mean = Vec::of(0);
  const auto each = [&](const auto& function) __attribute__((always_inline)) {
    each_vector(columns, function);
  };
  const auto one_over = Vec::of(1.0F / static_cast<float>(columns));
  if (p.kind == NormKind::layer) {
    each([&](std::int64_t i, std::int64_t n)
             __attribute__((always_inline)) { sum = sum + load_some(from + i, n); });
    mean = Vec::of(total(sum)) * one_over;
  }
  each([&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
    Vec x = load_some(from + i, n);
    if (p.kind == NormKind::layer) {
      float inside[Vec::width];
      minus(x, mean).store(inside);
      x = load_some(static_cast<const float*>(inside), n);
    }
    squares = Vec::fma(x, x, squares);
  });
  const float variance = total(squares) / static_cast<float>(columns);
  const Vec factor = Vec::of(1.0F / __builtin_sqrtf(variance + p.eps));
  each([&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
    Vec x = load_some(from + i, n);
    if (p.kind == NormKind::layer) x = minus(x, mean);
    x = x * factor;
    if (p.weight.data) {
      Vec w = load_values(p.weight, i, n);
      if (p.kind == NormKind::rms_plus_one) w = w + Vec::of(1);
      x = x * w;
    }
    if (p.bias.data) x = x + load_values(p.bias, i, n);
    store_some(x, to + i, n);
  });
}

void rotate(float* head, const float* cos, const float* sin, std::int64_t half) {
  each_vector(
      half, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        const Vec a = load_some(head + i, n), b = load_some(head + half + i, n);
        const Vec c = load_some(cos + i, n), s = load_some(sin + i, n);
        store_some(minus(a * c, b * s), head + i, n);
        store_some(Vec::fma(a, s, b * c), head + half + i, n);
      });
}

void add_values(const Values& bias, std::int64_t begin, std::int64_t columns, float* row) {
  each_vector(
      columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        store_some(load_some(row + i, n) + load_values(bias, begin + i, n), row + i, n);
      });
}

void gate(Gate kind, float* a, const float* b, std::int64_t columns) {
  switch (kind) {
    case Gate::silu:
      return gate_with(
          a, b, columns, [](Vec x) __attribute__((always_inline)) {
            return sigmoid_times(x, x * Vec::of(log2_e));
          });
    case Gate::gelu: return gate_with(a, b, columns, [](Vec x) { return gelu_erf_of(x); });
    case Gate::gelu_tanh:
      return gate_with(
          a, b, columns, [](Vec x) __attribute__((always_inline)) { return gelu_tanh_of(x); });
    case Gate::relu:
      return gate_with(
          a, b, columns,
          [](Vec x) __attribute__((always_inline)) { return max_of(x, Vec::of(0)); });
    case Gate::relu2: break;
  }
  gate_with(
      a, b, columns, [](Vec x) __attribute__((always_inline)) {
        const Vec positive = max_of(x, Vec::of(0));
        return positive * positive;
      });
}

void store(const float* from, std::int64_t columns, const Values& to, std::int64_t begin) {
  each_vector(
      columns, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        const Vec x = load_some(from + i, n);
        if (to.type == Element::f32)
          return store_some(x, static_cast<float*>(to.data) + begin + i, n);
        if (to.type == Element::bf16)
          return store_some(x, static_cast<Bf16*>(to.data) + begin + i, n);
        store_some(x, static_cast<Fp16*>(to.data) + begin + i, n);
      });
}

ANYACCEL_ISA_END
#endif
