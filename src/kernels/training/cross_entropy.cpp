#include "kernels/training/cross_entropy.h"

#include <type_traits>

#define ANYACCEL_KERNEL "kernels/training/cross_entropy_isa.h"
#include "kernels/simd/each_isa_and_double.h"

namespace anyaccel::ops {

template <typename S>
void cross_entropy_rows([[maybe_unused]] Isa isa, const CrossEntropy<S>& pass, std::int64_t begin,
                        std::int64_t end) noexcept {
  if constexpr (std::is_same_v<S, double>)
    fp64::cross_entropy(pass, begin, end);
  else
    ANYACCEL_CALL_ISA(isa, cross_entropy, pass, begin, end);
}

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define INSTANTIATE(S) \
  template void cross_entropy_rows(Isa, const CrossEntropy<S>&, std::int64_t, std::int64_t) noexcept
// NOLINTEND(bugprone-macro-parentheses)
INSTANTIATE(float);
INSTANTIATE(Bf16);
INSTANTIATE(Fp16);
INSTANTIATE(double);

}  // namespace anyaccel::ops
