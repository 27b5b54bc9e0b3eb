// Softmax cross-entropy of logits with its gradient, in float and double.
#if defined(ANYACCEL_TRAINING_CROSS_ENTROPY_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_TRAINING_CROSS_ENTROPY_ISA_H)
#undef ANYACCEL_TRAINING_CROSS_ENTROPY_ISA_H
#else
#define ANYACCEL_TRAINING_CROSS_ENTROPY_ISA_H
#endif

#include "kernels/simd/math_isa.h"
#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/sums_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/training/cross_entropy.h"

ANYACCEL_ISA_BEGIN
namespace {

constexpr std::int64_t summed_elements = 2048;  // partial sums of this size are added in double

/// Returns tanh(x).
inline Vec tanh_of(Vec x) {
  const Vec bound = min_of(max_of(x, Vec::of(-40)), Vec::of(40));
  const Vec e = exp2_of(bound * Vec::of(2 * log2_e));
  const Vec t = Vec::fma(Vec::of(-2), Vec::of(1) / (e + Vec::of(1)), Vec::of(1));
  return {x.x == x.x ? t.x : x.x};
}

/// Returns the maximum of a row, after applying the soft cap in place.
template <typename S>
Real cap_and_maximum(S* logits, std::int64_t vocab, Real softcap) {
  Vec most = Vec::of(-infinity);
  const Vec cap = Vec::of(softcap), inverse = Vec::of(softcap > 0 ? 1 / softcap : 0);
  each_vector(
      vocab, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
        if (softcap > 0)
          store_some(cap * tanh_of(load_some(logits + i, n) * inverse), logits + i, n);
        if (n == Vec::width) {
          most = max_of(Vec::load(logits + i), most);
        } else {
          Real parts[Vec::width];
          load_some(logits + i, n).store(parts);
          for (std::int64_t k = n; k < Vec::width; ++k) parts[k] = -infinity;
          most = max_of(Vec::load(parts), most);
        }
      });
  return greatest(most);
}

/// Returns the sum of exp(logit - maximum). `shift`: the negated maximum.
template <typename S>
double sum_of_exp(const S* logits, std::int64_t vocab, Vec shift) {
  double sum = 0;
  for (std::int64_t first = 0; first < vocab; first += summed_elements) {
    const std::int64_t count = vocab - first < summed_elements ? vocab - first : summed_elements;
    Vec part = Vec::of(0);
    Real rest = 0;
    each_vector(
        count, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
          const Vec e = exp2_of((load_some(logits + first + i, n) + shift) * Vec::of(log2_e));
          if (n == Vec::width) {
            part = part + e;
          } else {
            Real parts[Vec::width];
            e.store(parts);
            for (std::int64_t k = 0; k < n; ++k) rest += parts[k];
          }
        });
    sum += static_cast<double>(total(part)) + static_cast<double>(rest);
  }
  return sum;
}

}  // namespace

template <typename S>
void cross_entropy(const CrossEntropy<S>& pass, std::int64_t begin, std::int64_t end) {
  const std::int64_t vocab = pass.vocab;
  for (std::int64_t row = begin; row < end; ++row) {
    S* const logits = pass.logits + row * vocab;
    const Real most = cap_and_maximum(logits, vocab, pass.softcap);
    const double sum = sum_of_exp(logits, vocab, Vec::of(-most));
    const std::int64_t label = pass.labels[row];
    const auto one = [](const S* at) {
      Real parts[Vec::width];
      load_some(at, 1).store(parts);
      return parts[0];
    };
    const Real at_label = one(logits + label);
    pass.losses[row] =
        __builtin_log(sum) + static_cast<double>(most) - static_cast<double>(at_label);
    if (!pass.gradient) continue;
    const Vec shift = Vec::of(-most);
    const Vec scale = Vec::of(static_cast<Real>(static_cast<double>(pass.factor) / sum));
    // The derivative of the soft cap is 1 - (z / softcap)^2 for the capped logit z.
    const Real bend = pass.softcap > 0 ? -1 / (pass.softcap * pass.softcap) : 0;
    const Vec bends = Vec::of(bend);
    each_vector(
        vocab, [&](std::int64_t i, std::int64_t n) __attribute__((always_inline)) {
          const Vec z = load_some(logits + i, n);
          Vec grad = exp2_of((z + shift) * Vec::of(log2_e)) * scale;
          if (bend != 0) grad = grad * Vec::fma(z * z, bends, Vec::of(1));
          store_some(grad, logits + i, n);
        });
    const Vec share = Vec::of(static_cast<Real>(
        __builtin_exp(static_cast<double>(at_label) - static_cast<double>(most)) / sum));
    const Real slope = bend != 0 ? 1 + at_label * at_label * bend : 1;
    store_some((share + Vec::of(-1)) * Vec::of(pass.factor * slope), logits + label, 1);
  }
}

ANYACCEL_ISA_END
#endif
