// One Lion step.
#if defined(ANYACCEL_OPTIMIZER_LION_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_OPTIMIZER_LION_ISA_H)
#undef ANYACCEL_OPTIMIZER_LION_ISA_H
#else
#define ANYACCEL_OPTIMIZER_LION_ISA_H
#endif

#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/loop_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

struct LionStep {
  explicit LionStep(const LionConstants& c)
      : beta1(Vec::of(c.beta1)),
        one_minus_beta1(Vec::of(c.one_minus_beta1)),
        beta2(Vec::of(c.beta2)),
        one_minus_beta2(Vec::of(c.one_minus_beta2)),
        minus_lr(Vec::of(c.minus_lr)),
        shrink(Vec::of(c.shrink)),
        has_shrink(c.shrink != 0) {}

  template <typename P, typename G, typename S>
  void operator()(P* params, const G* grads, S* exp_avg) const {
    Vec p = Vec::load(params);
    const Vec g = Vec::load(grads);
    const Vec m = Vec::load(exp_avg);
    const Vec direction = Vec::sign(Vec::fma(one_minus_beta1, g, beta1 * m));
    if (has_shrink) p = Vec::fma(shrink, p, p);
    Vec::fma(one_minus_beta2, g, beta2 * m).store(exp_avg);
    Vec::fma(minus_lr, direction, p).store(params);
  }

  Vec beta1, one_minus_beta1, beta2, one_minus_beta2, minus_lr, shrink;
  bool has_shrink;
};

void update(const LionConstants& constants, const OneStateArrays& arrays, std::int64_t begin,
            std::int64_t end) {
  one_state_update<LionStep>(constants, arrays, begin, end);
}

}  // namespace
ANYACCEL_ISA_END
#endif
