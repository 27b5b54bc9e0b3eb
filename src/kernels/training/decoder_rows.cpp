#include "kernels/training/decoder_rows.h"

#include <type_traits>

#define ANYACCEL_KERNEL "kernels/training/decoder_rows_isa.h"
#include "kernels/simd/each_isa_and_double.h"

namespace anyaccel::ops {

/// Calls `function` from the namespace of the instruction set `isa`, or from fp64 if S is double.
#define CALL(function, ...)                          \
  do {                                               \
    if constexpr (std::is_same_v<S, double>)         \
      fp64::function(__VA_ARGS__);                   \
    else                                             \
      ANYACCEL_CALL_ISA(isa, function, __VA_ARGS__); \
  } while (false)

template <typename S>
void rms_norm_rows([[maybe_unused]] Isa isa, const RmsNorm<S>& pass, std::int64_t begin,
                   std::int64_t end) noexcept {
  CALL(rms_norm, pass, begin, end);
}
template <typename S>
void rms_norm_grad([[maybe_unused]] Isa isa, const RmsNormGrad<S>& pass, std::int64_t begin,
                   std::int64_t end, typename RealOf<S>::type* weight_grad) noexcept {
  CALL(rms_norm_gradient, pass, begin, end, weight_grad);
}
template <typename S>
void gated_rows([[maybe_unused]] Isa isa, const GatedRows<S>& pass, std::int64_t begin,
                std::int64_t end) noexcept {
  CALL(gated, pass, begin, end);
}
template <typename S>
void gated_rows_grad([[maybe_unused]] Isa isa, const GatedRows<S>& pass, const S* grad,
                     S* grad_from, std::int64_t begin, std::int64_t end) noexcept {
  CALL(gated_gradient, pass, grad, grad_from, begin, end);
}
template <typename S>
void rotary_split_rows([[maybe_unused]] Isa isa, const RotaryRows<S>& pass, std::int64_t begin,
                       std::int64_t end) noexcept {
  CALL(rotary_split, pass, begin, end);
}
template <typename S>
void rotary_join_rows([[maybe_unused]] Isa isa, const RotaryRows<S>& pass, std::int64_t begin,
                      std::int64_t end) noexcept {
  CALL(rotary_join, pass, begin, end);
}

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define INSTANTIATE(S)                                                                             \
  template void rms_norm_rows(Isa, const RmsNorm<S>&, std::int64_t, std::int64_t) noexcept;        \
  template void rms_norm_grad(Isa, const RmsNormGrad<S>&, std::int64_t, std::int64_t,              \
                              RealOf<S>::type*) noexcept;                                          \
  template void gated_rows(Isa, const GatedRows<S>&, std::int64_t, std::int64_t) noexcept;         \
  template void gated_rows_grad(Isa, const GatedRows<S>&, const S*, S*, std::int64_t,              \
                                std::int64_t) noexcept;                                            \
  template void rotary_split_rows(Isa, const RotaryRows<S>&, std::int64_t, std::int64_t) noexcept; \
  template void rotary_join_rows(Isa, const RotaryRows<S>&, std::int64_t, std::int64_t) noexcept
// NOLINTEND(bugprone-macro-parentheses)
INSTANTIATE(float);
INSTANTIATE(Bf16);
INSTANTIATE(Fp16);
INSTANTIATE(double);

}  // namespace anyaccel::ops
