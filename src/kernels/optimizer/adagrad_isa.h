// One Adagrad step.
#if defined(ANYACCEL_OPTIMIZER_ADAGRAD_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_OPTIMIZER_ADAGRAD_ISA_H)
#undef ANYACCEL_OPTIMIZER_ADAGRAD_ISA_H
#else
#define ANYACCEL_OPTIMIZER_ADAGRAD_ISA_H
#endif

#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/loop_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

struct AdagradStep {
  explicit AdagradStep(const AdagradConstants& c)
      : minus_lr(Vec::of(c.minus_lr)),
        eps(Vec::of(c.eps)),
        weight_decay(Vec::of(c.weight_decay)),
        has_decay(c.weight_decay != 0),
        divides(no_reciprocal(c.eps)) {}

  template <typename P, typename G, typename S>
  void operator()(P* params, const G* grads, S* exp_avg_sq) const {
    const Vec p = Vec::load(params);
    Vec g = Vec::load(grads);
    if (has_decay) g = Vec::fma(weight_decay, p, g);
    const Vec s = Vec::fma(g, g, Vec::load(exp_avg_sq));
    const Vec divisor = Vec::sqrt(s) + eps;
    const Vec update = divides ? g / divisor : g * Vec::reciprocal(divisor);
    s.store(exp_avg_sq);
    Vec::fma(minus_lr, update, p).store(params);
  }

  Vec minus_lr, eps, weight_decay;
  bool has_decay, divides;
};

void update(const AdagradConstants& constants, const OneStateArrays& arrays, std::int64_t begin,
            std::int64_t end) {
  one_state_update<AdagradStep>(constants, arrays, begin, end);
}

}  // namespace
ANYACCEL_ISA_END
#endif
