#include "kernels/transformer/rows.h"

#include <type_traits>

#include "kernels/transformer/dropout.h"

#define ANYACCEL_KERNEL "kernels/transformer/rows_isa.h"
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
void add_norm([[maybe_unused]] Isa isa, const AddNorm<S>& pass, std::int64_t begin,
              std::int64_t end, typename RealOf<S>::type* scratch) noexcept {
  CALL(add_norm, pass, begin, end, scratch);
}
template <typename S>
void norm_grad([[maybe_unused]] Isa isa, const NormGrad<S>& pass, std::int64_t begin,
               std::int64_t end, typename RealOf<S>::type* sums,
               typename RealOf<S>::type* scratch) noexcept {
  CALL(norm_grad, pass, begin, end, sums, scratch);
}
template <typename S>
void gelu([[maybe_unused]] Isa isa, const Gelu<S>& pass, std::int64_t begin,
          std::int64_t end) noexcept {
  CALL(gelu, pass, begin, end);
}
template <typename S>
void gelu_grad([[maybe_unused]] Isa isa, const Gelu<S>& pass, S* grad, std::int64_t begin,
               std::int64_t end, typename RealOf<S>::type* sums) noexcept {
  CALL(gelu_grad, pass, grad, begin, end, sums);
}
template <typename S>
void add_bias([[maybe_unused]] Isa isa, S* rows, const S* bias, std::int64_t columns,
              std::int64_t begin, std::int64_t end) noexcept {
  CALL(add_bias, rows, bias, columns, begin, end);
}
template <typename S>
void column_sums([[maybe_unused]] Isa isa, const S* rows, std::int64_t columns, std::int64_t begin,
                 std::int64_t end, typename RealOf<S>::type* sums) noexcept {
  CALL(column_sums, rows, columns, begin, end, sums);
}

template <typename S>
void widen([[maybe_unused]] Isa isa, const S* from, std::int64_t count,
           typename RealOf<S>::type* to) noexcept {
  CALL(widen, from, count, to);
}
template <typename S>
void narrow([[maybe_unused]] Isa isa, const typename RealOf<S>::type* from, std::int64_t count,
            S* to) noexcept {
  CALL(narrow, from, count, to);
}

void kept(const Dropout& dropout, std::int64_t row, std::int64_t columns, bool* to) noexcept {
  const std::uint64_t key = draws::row_key(dropout, row);
  for (std::int64_t i = 0; i < columns; ++i)
    to[i] = draws::drawn(static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32),
                         static_cast<std::uint32_t>(i)) >= dropout.threshold;
}

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define INSTANTIATE(S)                                                                           \
  template void add_norm(Isa, const AddNorm<S>&, std::int64_t, std::int64_t,                     \
                         RealOf<S>::type*) noexcept;                                             \
  template void norm_grad(Isa, const NormGrad<S>&, std::int64_t, std::int64_t, RealOf<S>::type*, \
                          RealOf<S>::type*) noexcept;                                            \
  template void gelu(Isa, const Gelu<S>&, std::int64_t, std::int64_t) noexcept;                  \
  template void gelu_grad(Isa, const Gelu<S>&, S*, std::int64_t, std::int64_t,                   \
                          RealOf<S>::type*) noexcept;                                            \
  template void add_bias(Isa, S*, const S*, std::int64_t, std::int64_t, std::int64_t) noexcept;  \
  template void widen(Isa, const S*, std::int64_t, RealOf<S>::type*) noexcept;                   \
  template void narrow(Isa, const RealOf<S>::type*, std::int64_t, S*) noexcept;                  \
  template void column_sums(Isa, const S*, std::int64_t, std::int64_t, std::int64_t,             \
                            RealOf<S>::type*) noexcept
// NOLINTEND(bugprone-macro-parentheses)
INSTANTIATE(float);
INSTANTIATE(Bf16);
INSTANTIATE(Fp16);
INSTANTIATE(double);

}  // namespace anyaccel::ops
