// The two halves of a LAMB step.
#if defined(ANYACCEL_OPTIMIZER_LAMB_ISA_H) == defined(ANYACCEL_ISA_TOGGLE)
#if defined(ANYACCEL_OPTIMIZER_LAMB_ISA_H)
#undef ANYACCEL_OPTIMIZER_LAMB_ISA_H
#else
#define ANYACCEL_OPTIMIZER_LAMB_ISA_H
#endif

#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/loop_isa.h"
#include "kernels/simd/vec.h"

ANYACCEL_ISA_BEGIN
namespace {

struct LambUpdate {
  explicit LambUpdate(const LambConstants& c)
      : eps(Vec::of(c.eps)), decay(Vec::of(c.decay)), eps_inside(c.eps_inside) {}

  Vec operator()(Vec p, Vec m, Vec v) const {
    const Vec divisor = eps_inside ? Vec::sqrt(v + eps) : Vec::sqrt(v) + eps;
    return Vec::fma(decay, p, m / divisor);
  }

  Vec eps, decay;
  bool eps_inside;
};

struct LambMoments {
  const LambConstants& c;
  const LambArrays& arrays;
  std::int64_t begin;
  std::int64_t end;
  LambNorms* norms;

  template <typename P, typename G, typename S>
  void run() const {
    const LambUpdate update(c);
    float squares_p[lamb_block];
    float squares_u[lamb_block];
    std::int64_t i = begin;
    P* params = static_cast<P*>(arrays.params);
    const G* grads = static_cast<const G*>(arrays.grads);
    S* exp_avg = static_cast<S*>(arrays.exp_avg);
    S* exp_avg_sq = static_cast<S*>(arrays.exp_avg_sq);
    for (; i + Vec::width <= end; i += Vec::width)
      step(update, params + i, grads + i, exp_avg + i, exp_avg_sq + i, squares_p + (i - begin),
           squares_u + (i - begin));
    if (i < end) {
      Tail<P> p(params + i, end - i);
      Tail<G> g(grads + i, end - i);
      Tail<S> m(exp_avg + i, end - i);
      Tail<S> v(exp_avg_sq + i, end - i);
      float last_p[Vec::width];
      float last_u[Vec::width];
      step(update, p.data(), g.data(), m.data(), v.data(), last_p, last_u);
      m.copy_to(exp_avg + i);
      v.copy_to(exp_avg_sq + i);
      for (std::int64_t j = i; j < end; ++j) {
        squares_p[j - begin] = last_p[j - i];
        squares_u[j - begin] = last_u[j - i];
      }
    }
    sum(squares_p, squares_u, end - begin);
  }

  // Adds in the order of lamb_lanes, which does not depend on the vector width.
  void sum(const float* squares_p, const float* squares_u, std::int64_t count) const {
    double lanes_p[lamb_lanes] = {};
    double lanes_u[lamb_lanes] = {};
    for (std::int64_t row = 0; row < count; row += lamb_lanes) {
      const std::int64_t lanes = count - row < lamb_lanes ? count - row : lamb_lanes;
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        lanes_p[lane] += static_cast<double>(squares_p[row + lane]);
        lanes_u[lane] += static_cast<double>(squares_u[row + lane]);
      }
    }
    for (int half = lamb_lanes / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) {
        lanes_p[lane] += lanes_p[lane + half];
        lanes_u[lane] += lanes_u[lane + half];
      }
    *norms = {lanes_p[0], lanes_u[0]};
  }

  template <typename P, typename G, typename S>
  void step(const LambUpdate& update, const P* params, const G* grads, S* exp_avg, S* exp_avg_sq,
            float* squares_p, float* squares_u) const {
    const Vec p = Vec::load(params);
    const Vec g = Vec::load(grads) / Vec::of(c.grad_scale);
    const Vec m = Vec::fma(Vec::of(c.one_minus_beta1), g, Vec::of(c.beta1) * Vec::load(exp_avg));
    const Vec v =
        Vec::fma(Vec::of(c.one_minus_beta2), g * g, Vec::of(c.beta2) * Vec::load(exp_avg_sq));
    m.store(exp_avg);
    v.store(exp_avg_sq);
    // Reload the states, because the second half also uses their rounded values.
    const Vec u = update(p, Vec::load(exp_avg), Vec::load(exp_avg_sq));
    (p * p).store(squares_p);
    (u * u).store(squares_u);
  }
};

struct LambApply {
  const LambConstants& c;
  float rate;
  const LambArrays& arrays;
  std::int64_t begin;
  std::int64_t end;

  template <typename P, typename G, typename S>
  void run() const {
    const LambUpdate update(c);
    P* params = static_cast<P*>(arrays.params);
    const S* exp_avg = static_cast<const S*>(arrays.exp_avg);
    const S* exp_avg_sq = static_cast<const S*>(arrays.exp_avg_sq);
    std::int64_t i = begin;
    for (; i + Vec::width <= end; i += Vec::width) {
      const Vec p = next(update, params + i, exp_avg + i, exp_avg_sq + i);
      p.store(params + i);
      copy(p, i, end);
    }
    if (i == end) return;
    Tail<P> tail_p(params + i, end - i);
    Tail<S> m(exp_avg + i, end - i);
    Tail<S> v(exp_avg_sq + i, end - i);
    const Vec p = next(update, tail_p.data(), m.data(), v.data());
    p.store(tail_p.data());
    tail_p.copy_to(params + i);
    copy(p, i, end);
  }

  template <typename P, typename S>
  Vec next(const LambUpdate& update, const P* params, const S* exp_avg, const S* exp_avg_sq) const {
    const Vec p = Vec::load(params);
    return Vec::fma(Vec::of(-rate), update(p, Vec::load(exp_avg), Vec::load(exp_avg_sq)), p);
  }

  void copy(Vec p, std::int64_t i, std::int64_t stop) const {
    if (!arrays.copy) return;
    switch (arrays.copied) {
      case Element::f32: return copy_as(p, at_index<float>(arrays.copy, i), stop - i);
      case Element::bf16: return copy_as(p, at_index<Bf16>(arrays.copy, i), stop - i);
      case Element::fp16: return copy_as(p, at_index<Fp16>(arrays.copy, i), stop - i);
    }
  }

  template <typename T>
  static void copy_as(Vec p, T* to, std::int64_t left) {
    if (left >= Vec::width) return p.store(to);
    T some[Vec::width];
    p.store(some);
    __builtin_memcpy(to, some, static_cast<std::size_t>(left) * sizeof(T));
  }
};

/// Like with_elements(), but also supports 16-bit gradients of float parameters.
template <typename Call>
void with_lamb_elements(const LambArrays& arrays, const Call& call) {
  if (arrays.param != Element::f32)
    return with_elements(arrays.param, arrays.grad, arrays.state, call);
  if (arrays.grad == Element::f32) return call.template run<float, float, float>();
  if (arrays.grad == Element::bf16) return call.template run<float, Bf16, float>();
  call.template run<float, Fp16, float>();
}

LambNorms moments(const LambConstants& constants, const LambArrays& arrays, std::int64_t begin,
                  std::int64_t end) {
  LambNorms norms;
  with_lamb_elements(arrays, LambMoments{constants, arrays, begin, end, &norms});
  return norms;
}

void apply(const LambConstants& constants, float rate, const LambArrays& arrays, std::int64_t begin,
           std::int64_t end) {
  with_lamb_elements(arrays, LambApply{constants, rate, arrays, begin, end});
}

}  // namespace
ANYACCEL_ISA_END
#endif
