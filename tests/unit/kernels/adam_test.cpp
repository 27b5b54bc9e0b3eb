#include "kernels/optimizer/adam.h"

#include "unit/kernels/arrays.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

struct Case {
  AdamOptions options;
  std::int64_t step;
  Array params, grads, exp_avg, exp_avg_sq;

  AdamArrays arrays() {
    return {params.data(),    grads.data(),    exp_avg.data(),   exp_avg_sq.data(),
            params.element(), grads.element(), exp_avg.element()};
  }
};

Case random_case(Random& random, bool specials) {
  AdamOptions options;
  options.lr = std::pow(10.0, random.between(-6, 0));
  options.beta1 = random.once_in(8) ? 0 : random.between(0.5, 0.999);
  options.beta2 = random.once_in(8) ? 0 : random.between(0.9, 0.99999);
  options.eps = random.once_in(8) ? 0 : std::pow(10.0, random.between(-12, -3));
  if (random.once_in(20))
    options.eps = random.once_in(2) ? 1e-40 : 3e38;  // the reciprocal is infinite or subnormal
  options.weight_decay = random.once_in(3) ? 0 : std::pow(10.0, random.between(-5, -1));
  options.bias_correction = !random.once_in(4);
  options.decoupled = random.once_in(2);
  const Element param = random.element();
  const Element state = random.beside(param);
  const std::int64_t n = random.length();
  Case out{options,
           random.once_in(3) ? 1 : random.whole(2, 100000),
           Array(param, n, random.offset()),
           Array(random.beside(param), n, random.offset()),
           Array(state, n, random.offset()),
           Array(state, n, random.offset())};
  for (std::int64_t i = 0; i < n; ++i) {
    out.params.set(i, random.value(-4, 2));
    out.grads.set(i, random.value());
    out.exp_avg.set(i, random.value());
    out.exp_avg_sq.set(i, std::abs(random.value(-10, 2)));
    if (!specials || !random.once_in(20)) continue;
    Array* const any[] = {&out.params, &out.grads, &out.exp_avg};
    any[random.whole(0, 2)]->set(i, random.special());
    if (random.once_in(3)) out.exp_avg_sq.set(i, std::abs(random.special()));
  }
  return out;
}

/// Results of the formulas of adam.h in double precision, with error bounds for a float
/// computation.
struct Exact {
  double params, params_error, exp_avg, exp_avg_error, exp_avg_sq, exp_avg_sq_error;
};

Exact exact_step(const Case& arguments, std::int64_t i) {
  constexpr double u = 0x1p-24;
  const AdamOptions& o = arguments.options;
  const auto step = static_cast<double>(arguments.step);
  const double bias1 = o.bias_correction ? 1 - std::pow(o.beta1, step) : 1;
  const double bias2 = o.bias_correction ? 1 - std::pow(o.beta2, step) : 1;
  const double p = arguments.params.get(i);
  const double decay = o.decoupled ? 0 : o.weight_decay * p;
  const double g = arguments.grads.get(i) + decay;
  const double g_size = std::abs(arguments.grads.get(i)) + std::abs(decay);
  const double old_m = o.beta1 * arguments.exp_avg.get(i);
  const double m = old_m + (1 - o.beta1) * g;
  const double m_size = std::abs(old_m) + (1 - o.beta1) * g_size;
  const double old_v = o.beta2 * arguments.exp_avg_sq.get(i);
  const double v = old_v + (1 - o.beta2) * g * g;
  const double v_size = old_v + (1 - o.beta2) * g_size * g_size;
  const double root = std::sqrt(v);
  const double divisor = root / std::sqrt(bias2) + o.eps;
  // Largest error of the square root if v has a relative error of 8 u.
  const double v_error = 8 * u * v_size + 0x1p-149;
  const double root_error = v > v_error ? v_error / root : std::sqrt(v_error);
  const double scale = o.lr / bias1;
  const double update = scale * m / divisor;
  const double update_size = scale * m_size / divisor;
  const double shrunk = o.decoupled ? p * (1 - o.lr * o.weight_decay) : p;
  const auto round_error = [](double value, Element element) {
    return element == Element::f32 ? 0 : spacing(value, element) * 0.5000001;
  };
  return {.params = shrunk - update,
          .params_error = 3 * u * std::abs(p) +
                          update_size * (12 * u + root_error / std::sqrt(bias2) / divisor) +
                          round_error(std::abs(shrunk) + update_size, arguments.params.element()) +
                          0x1p-149,
          .exp_avg = m,
          .exp_avg_error = 4 * u * m_size + round_error(m, arguments.exp_avg.element()) + 0x1p-148,
          .exp_avg_sq = v,
          .exp_avg_sq_error = v_error + round_error(v, arguments.exp_avg.element()) + 0x1p-148};
}

/// Evaluates the formulas of adam.h with scalar float operations. Every instruction set must
/// produce the same bits.
void float_step(const AdamConstants& c, Case& of) {
  for (std::int64_t i = 0, n = of.params.size(); i < n; ++i) {
    auto p = static_cast<float>(of.params.get(i));
    auto g = static_cast<float>(of.grads.get(i));
    if (c.l2 != 0) g = std::fma(c.l2, p, g);
    const float m = std::fma(c.one_minus_beta1, g, c.beta1 * static_cast<float>(of.exp_avg.get(i)));
    const float v =
        std::fma(c.one_minus_beta2, g * g, c.beta2 * static_cast<float>(of.exp_avg_sq.get(i)));
    const float divisor = std::fma(std::sqrt(v), c.root, c.eps);
    const float update = c.divides ? m / divisor : m * (1 / divisor);
    if (c.shrink != 0) p = std::fma(c.shrink, p, p);
    of.params.set(i, std::fma(c.step_size, update, p));
    of.exp_avg.set(i, m);
    of.exp_avg_sq.set(i, v);
  }
}

void expect_same(const Case& a, const Case& b, const std::string& what) {
  ASSERT_TRUE(a.params.guards_whole() && a.exp_avg.guards_whole() && a.exp_avg_sq.guards_whole())
      << what;
  for (std::int64_t i = 0; i < a.params.size(); ++i)
    ASSERT_TRUE(a.params.same(i, b.params) && a.exp_avg.same(i, b.exp_avg) &&
                a.exp_avg_sq.same(i, b.exp_avg_sq))
        << what << ", element " << i << " of " << a.params.size() << ": " << a.params.get(i)
        << " and " << b.params.get(i) << ", exp_avg " << a.exp_avg.get(i) << " and "
        << b.exp_avg.get(i) << ", exp_avg_sq " << a.exp_avg_sq.get(i) << " and "
        << b.exp_avg_sq.get(i);
}

// Fails if a formula, constant, sign or conversion is wrong, or the rounding error exceeds its
// bound.
TEST(CpuAdam, StaysWithinErrorBoundOfDouble) {
  Random random(1);
  for (int round = 0; round < rounds(1500); ++round) {
    const Case before = random_case(random, false);
    Case after = before;
    adam_update(best_isa(), adam_constants(before.options, before.step), after.arrays(), 0,
                after.params.size());
    for (std::int64_t i = 0; i < after.params.size(); ++i) {
      const Exact exact = exact_step(before, i);
      const double limit = format_of(after.exp_avg.element()).largest;
      if (std::abs(exact.params) + exact.params_error < format_of(after.params.element()).largest) {
        ASSERT_NEAR(after.params.get(i), exact.params, exact.params_error)
            << "case " << round << " element " << i;
      }
      ASSERT_NEAR(after.exp_avg.get(i), exact.exp_avg, exact.exp_avg_error)
          << "case " << round << " element " << i;
      if (exact.exp_avg_sq < limit) {
        ASSERT_NEAR(after.exp_avg_sq.get(i), exact.exp_avg_sq, exact.exp_avg_sq_error)
            << "case " << round;
      }
    }
  }
}

// Fails if a result is not bitwise equal to scalar float arithmetic, or a write is out of bounds.
// The 10,000 random cases cover every type, many lengths and alignments, and special values.
TEST(CpuAdam, EveryInstructionSetMatchesPlainFloat) {
  Random random(2);
  for (int round = 0; round < rounds(10000); ++round) {
    const Case before = random_case(random, true);
    const AdamConstants constants = adam_constants(before.options, before.step);
    Case expected = before;
    float_step(constants, expected);
    for (const Isa isa : sets()) {
      if (isa != Isa::avx512 && round % 4 != 0) continue;
      Case after = before;
      const std::int64_t n = after.params.size();
      const std::int64_t middle = random.whole(0, n);  // a range may begin at any element
      adam_update(isa, constants, after.arrays(), 0, middle);
      adam_update(isa, constants, after.arrays(), middle, n);
      expect_same(after, expected, std::string(to_string(isa)) + ", case " + std::to_string(round));
      if (HasFatalFailure()) return;
    }
  }
}

// Fails if the reciprocal of any of the 2^23 significands is not correctly rounded. Checks a small,
// a medium and a large exponent for each significand.
TEST(CpuAdam, ReciprocalsAreCorrectlyRounded) {
  constexpr std::int64_t n = 1 << 23;
  std::vector<float> p(n), g(n, 0.0F), m(n), v(n);
  for (const Isa isa : sets()) {
    for (const int exponent : {-62, 0, 60}) {
      // The square root of d * d is d or an adjacent float, so nearly all significands are tested.
      for (std::int64_t i = 0; i < n; ++i) {
        const auto d = std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23 |
                                            static_cast<std::uint32_t>(i));
        v[static_cast<std::size_t>(i)] = d * d;
      }
      std::fill(p.begin(), p.end(), 0.0F);
      std::fill(m.begin(), m.end(), 1.0F);
      AdamConstants constants{.beta1 = 1, .beta2 = 1, .root = 1, .step_size = 1};
      adam_update(
          isa, constants,
          {p.data(), g.data(), m.data(), v.data(), Element::f32, Element::f32, Element::f32}, 0, n);
      for (std::size_t i = 0; i < p.size(); ++i)
        ASSERT_EQ(p[i], 1 / std::sqrt(v[i])) << to_string(isa) << " " << std::sqrt(v[i]);
    }
  }
}

// Fails if the update multiplies by a subnormal reciprocal instead of dividing.
TEST(CpuAdam, DividesByHugeEps) {
  for (const Isa isa : sets()) {
    Case one{{.lr = 1, .eps = 2e38},     1,
             Array(Element::f32, 16, 0), Array(Element::f32, 16, 0),
             Array(Element::f32, 16, 0), Array(Element::f32, 16, 0)};
    for (std::int64_t i = 0; i < 16; ++i) {
      one.params.set(i, 0);
      one.grads.set(i, 1e18);
      one.exp_avg.set(i, 0);
      one.exp_avg_sq.set(i, 0);
    }
    adam_update(isa, adam_constants(one.options, 1), one.arrays(), 0, 16);
    EXPECT_NEAR(one.params.get(3), -5e-21, 1e-26) << to_string(isa);
  }
}

// Fails if rollback does not undo a step, with coupled or decoupled weight decay.
TEST(CpuAdam, RollbackUndoesAStep) {
  Random random(3);
  for (int round = 0; round < rounds(200); ++round) {
    Case before = random_case(random, false);
    before.options.beta1 = 0.9;
    before.options.beta2 = 0.99;
    before.options.lr = 1e-2;
    before.options.eps = 1e-6;
    if (before.params.element() != Element::f32) continue;
    Case after = before;
    const AdamConstants constants = adam_constants(before.options, before.step);
    for (const Isa isa : sets()) {
      adam_update(isa, constants, after.arrays(), 0, after.params.size());
      adam_rollback(isa, constants, after.arrays(), 0, after.params.size());
      for (std::int64_t i = 0; i < after.params.size(); ++i) {
        const Exact exact = exact_step(before, i);
        EXPECT_NEAR(after.params.get(i), before.params.get(i), 8 * exact.params_error + 1e-6);
        EXPECT_NEAR(after.exp_avg.get(i), before.exp_avg.get(i), 20 * exact.exp_avg_error + 1e-6);
        EXPECT_NEAR(after.exp_avg_sq.get(i), before.exp_avg_sq.get(i),
                    20 * exact.exp_avg_sq_error + 1e-6);
      }
      after = before;
    }
  }
}

// Fails if a parameter that cannot be restored stays NaN or infinite. As in DeepSpeed, rollback
// sets such a parameter to 0.
TEST(CpuAdam, RollbackZeroesNonFiniteParameters) {
  for (const Isa isa : sets()) {
    Case one{{},
             1,
             Array(Element::f32, 3, 1),
             Array(Element::f32, 3, 1),
             Array(Element::f32, 3, 1),
             Array(Element::f32, 3, 1)};
    for (std::int64_t i = 0; i < 3; ++i) {
      one.params.set(i, i == 1 ? std::nan("") : 1);
      one.grads.set(i, 1);
      one.exp_avg.set(i, 0);
      one.exp_avg_sq.set(i, 1);
    }
    adam_rollback(isa, adam_constants({}, 1), one.arrays(), 0, 3);
    EXPECT_EQ(one.params.get(1), 0) << to_string(isa);
    EXPECT_EQ(one.params.get(0), 1) << to_string(isa);
  }
}

}  // namespace
