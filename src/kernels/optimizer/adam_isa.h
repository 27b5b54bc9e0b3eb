// One Adam step and its inverse.
#if defined(ANYACCEL_OPTIMIZER_ADAM_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_OPTIMIZER_ADAM_ISA_H)
#undef ANYACCEL_OPTIMIZER_ADAM_ISA_H
#else
#define ANYACCEL_OPTIMIZER_ADAM_ISA_H
#endif

#include "kernels/optimizer/adam.h"
#include "kernels/optimizer/loop_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

struct AdamStep {
  explicit AdamStep(const AdamConstants& c)
      : beta1(Vec::of(c.beta1)),
        one_minus_beta1(Vec::of(c.one_minus_beta1)),
        beta2(Vec::of(c.beta2)),
        one_minus_beta2(Vec::of(c.one_minus_beta2)),
        eps(Vec::of(c.eps)),
        root(Vec::of(c.root)),
        step_size(Vec::of(c.step_size)),
        l2(Vec::of(c.l2)),
        shrink(Vec::of(c.shrink)),
        has_l2(c.has_l2),
        has_shrink(c.has_shrink),
        divides(c.divides) {}

  template <typename P, typename G, typename S>
  void operator()(P* params, const G* grads, S* exp_avg, S* exp_avg_sq) const {
    Vec p = Vec::load(params);
    Vec g = Vec::load(grads);
    if (has_l2) g = Vec::fma(l2, p, g);  // conditional, because 0 times infinity is NaN
    const Vec m = Vec::fma(one_minus_beta1, g, beta1 * Vec::load(exp_avg));
    const Vec v = Vec::fma(one_minus_beta2, g * g, beta2 * Vec::load(exp_avg_sq));
    const Vec divisor = Vec::fma(Vec::sqrt(v), root, eps);
    const Vec update = divides ? m / divisor : m * Vec::reciprocal(divisor);
    if (has_shrink) p = Vec::fma(shrink, p, p);
    p = Vec::fma(step_size, update, p);
    m.store(exp_avg);
    v.store(exp_avg_sq);
    p.store(params);
  }

  Vec beta1, one_minus_beta1, beta2, one_minus_beta2, eps, root, step_size, l2, shrink;
  bool has_l2, has_shrink, divides;
};

struct AdamBack {
  explicit AdamBack(const AdamConstants& c)
      : minus_one_minus_beta1(Vec::of(-c.one_minus_beta1)),
        beta1(Vec::of(c.beta1)),
        minus_one_minus_beta2(Vec::of(-c.one_minus_beta2)),
        beta2(Vec::of(c.beta2)),
        eps(Vec::of(c.eps)),
        root(Vec::of(c.root)),
        minus_step_size(Vec::of(-c.step_size)),
        l2(Vec::of(c.l2)),
        one_plus_shrink(Vec::of(1.0F + c.shrink)),
        has_l2(c.has_l2) {}

  template <typename P, typename G, typename S>
  void operator()(P* params, const G* grads, S* exp_avg, S* exp_avg_sq) const {
    const Vec m = Vec::load(exp_avg);
    const Vec v = Vec::load(exp_avg_sq);
    const Vec update = m / Vec::fma(Vec::sqrt(v), root, eps);
    const Vec p =
        Vec::finite_or_zero(Vec::fma(minus_step_size, update, Vec::load(params)) / one_plus_shrink);
    Vec g = Vec::load(grads);
    if (has_l2) g = Vec::fma(l2, p, g);
    (Vec::fma(minus_one_minus_beta1, g, m) / beta1).store(exp_avg);
    (Vec::fma(minus_one_minus_beta2, g * g, v) / beta2).store(exp_avg_sq);
    p.store(params);
  }

  Vec minus_one_minus_beta1, beta1, minus_one_minus_beta2, beta2, eps, root, minus_step_size, l2,
      one_plus_shrink;
  bool has_l2;
};

template <typename Step>
struct AdamCall {
  const AdamConstants& constants;
  const AdamArrays& arrays;
  std::int64_t begin;
  std::int64_t end;

  template <typename P, typename G, typename S>
  void run() const {
    step_over(Step(constants), end - begin, at_index<P>(arrays.params, begin),
              at_index<G>(arrays.grads, begin), at_index<S>(arrays.exp_avg, begin),
              at_index<S>(arrays.exp_avg_sq, begin));
  }
};

void update(const AdamConstants& constants, const AdamArrays& arrays, std::int64_t begin,
            std::int64_t end) {
  with_elements(arrays.param, arrays.grad, arrays.state,
                AdamCall<AdamStep>{constants, arrays, begin, end});
}

void rollback(const AdamConstants& constants, const AdamArrays& arrays, std::int64_t begin,
              std::int64_t end) {
  with_elements(arrays.param, arrays.grad, arrays.state,
                AdamCall<AdamBack>{constants, arrays, begin, end});
}

}  // namespace
ANYACCEL_ISA_END
#endif
