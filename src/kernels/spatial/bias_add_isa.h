// Bias addition, in float and double.
#if defined(ANYACCEL_SPATIAL_BIAS_ADD_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_SPATIAL_BIAS_ADD_ISA_H)
#undef ANYACCEL_SPATIAL_BIAS_ADD_ISA_H
#else
#define ANYACCEL_SPATIAL_BIAS_ADD_ISA_H
#endif

#include "kernels/simd/row_ends_isa.h"
#include "kernels/simd/vec.h"
#include "kernels/spatial/bias_add.h"

ANYACCEL_ISA_BEGIN
namespace {

template <typename S, bool has_other>
void add_elements(const BiasAdd<Real>& add, std::int64_t begin, std::int64_t end) {
  for (; begin < end; begin += add.period) {
    const S* const from = static_cast<const S*>(add.activation) + begin;
    const S* const other = has_other ? static_cast<const S*>(add.other) + begin : nullptr;
    S* const to = static_cast<S*>(add.out) + begin;
    each_vector(end - begin < add.period ? end - begin : add.period,
                [&](std::int64_t i, std::int64_t n) {
                  Vec sum = load_some(from + i, n);
                  if (has_other) sum = sum + load_some(other + i, n);
                  store_some(sum + load_some(add.bias + i, n), to + i, n);
                });
  }
}

template <typename S>
void repeat_elements(const S* bias, const S* other, std::int64_t channels, std::int64_t period,
                     Real* to) {
  for (std::int64_t at = 0; at < period; at += channels)
    each_vector(channels, [&](std::int64_t i, std::int64_t n) {
      Vec sum = load_some(bias + i, n);
      if (other) sum = sum + load_some(other + i, n);
      store_some(sum, to + at + i, n);
    });
}

}  // namespace

template <typename S>
void bias_elements(const BiasAdd<Real>& add, std::int64_t begin, std::int64_t end) {
  if (add.other)
    add_elements<S, true>(add, begin, end);
  else
    add_elements<S, false>(add, begin, end);
}

template <typename S>
void repeated(const void* bias, const void* other, std::int64_t channels, std::int64_t period,
              Real* to) {
  repeat_elements(static_cast<const S*>(bias), static_cast<const S*>(other), channels, period, to);
}

ANYACCEL_ISA_END
#endif
