#include "kernels/optimizer/adagrad.h"

#include "unit/kernels/arrays.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

struct Case {
  AdagradConstants constants;
  Array params, grads, state;
};

Case random_case(Random& random) {
  const Element param = random.element();
  const std::int64_t n = random.length();
  const bool specials = random.once_in(2);
  Case out{{-static_cast<float>(std::pow(10.0, random.between(-6, 0))),
            random.once_in(8) ? 0
            : random.once_in(20)
                ? (random.once_in(2) ? 1e-40F : 3e38F)  // the reciprocal is infinite or subnormal
                : static_cast<float>(std::pow(10.0, random.between(-12, -3))),
            random.once_in(3) ? 0 : static_cast<float>(std::pow(10.0, random.between(-5, -1)))},
           Array(param, n, random.offset()),
           Array(random.beside(param), n, random.offset()),
           Array(random.beside(param), n, random.offset())};
  for (std::int64_t i = 0; i < n; ++i) {
    out.params.set(i, random.value(-4, 2));
    out.grads.set(i, random.value(-8, 1));
    out.state.set(i, std::abs(random.value(-10, 2)));
    if (!specials || !random.once_in(20)) continue;
    (random.once_in(2) ? out.params : out.grads).set(i, random.special());
    if (random.once_in(3)) out.state.set(i, std::abs(random.special()));
  }
  return out;
}

void expect_same(const Case& a, const Case& b, const std::string& what) {
  ASSERT_TRUE(a.params.guards_whole() && a.state.guards_whole()) << what;
  for (std::int64_t i = 0; i < a.params.size(); ++i)
    ASSERT_TRUE(a.params.same(i, b.params) && a.state.same(i, b.state))
        << what << ", element " << i << " of " << a.params.size() << ": " << a.params.get(i)
        << " and " << b.params.get(i) << ", state " << a.state.get(i) << " and " << b.state.get(i);
}

void run(Isa isa, Case& of, std::int64_t begin, std::int64_t end) {
  adagrad_update(isa, of.constants,
                 {of.params.data(), of.grads.data(), of.state.data(), of.params.element(),
                  of.grads.element(), of.state.element()},
                 begin, end);
}

/// Evaluates the formulas of adagrad.h with scalar float operations.
void float_step(Case& of) {
  const AdagradConstants& c = of.constants;
  for (std::int64_t i = 0; i < of.params.size(); ++i) {
    const auto p = static_cast<float>(of.params.get(i));
    auto g = static_cast<float>(of.grads.get(i));
    if (c.weight_decay != 0) g = std::fma(c.weight_decay, p, g);
    const float s = std::fma(g, g, static_cast<float>(of.state.get(i)));
    const float divisor = std::sqrt(s) + c.eps;
    const float update = no_reciprocal(c.eps) ? g / divisor : g * (1 / divisor);
    of.params.set(i, std::fma(c.minus_lr, update, p));
    of.state.set(i, s);
  }
}

// Fails if a result is not bitwise equal to scalar float arithmetic, or a write is out of bounds.
// The 10,000 random cases cover every type, many lengths and alignments, and special values.
TEST(CpuAdagrad, EveryInstructionSetMatchesPlainFloat) {
  Random random(5);
  for (int round = 0; round < rounds(10000); ++round) {
    const Case before = random_case(random);
    Case expected = before;
    float_step(expected);
    for (const Isa isa : sets()) {
      if (isa != sets().back() && round % 8 != 0) continue;
      Case after = before;
      const std::int64_t middle = random.whole(0, after.params.size());
      run(isa, after, 0, middle);
      run(isa, after, middle, after.params.size());
      expect_same(after, expected, std::string(to_string(isa)) + ", case " + std::to_string(round));
      if (HasFatalFailure()) return;
    }
  }
}

// Fails if a formula is wrong, or the rounding error exceeds its bound.
TEST(CpuAdagrad, StaysWithinErrorBoundOfDouble) {
  constexpr double u = 0x1p-24;
  Random random(6);
  for (int round = 0; round < rounds(1500); ++round) {
    const Case before = random_case(random);
    Case after = before;
    run(best_isa(), after, 0, after.params.size());
    for (std::int64_t i = 0; i < after.params.size(); ++i) {
      const double p = before.params.get(i);
      const double decay = before.constants.weight_decay * p;
      const double g = before.grads.get(i) + decay;
      const double g_size = std::abs(before.grads.get(i)) + std::abs(decay);
      const double s = before.state.get(i) + g * g;
      if (!(std::abs(p) < 1e4) || !(g_size < 1e4) || !(s < 1e4)) continue;
      const double divisor = std::sqrt(s) + before.constants.eps;
      if (divisor < 1e-18)
        continue;  // the square of the gradient underflows; the bitwise test covers this case
      const double update = -static_cast<double>(before.constants.minus_lr) * g / divisor;
      const double size =
          std::abs(static_cast<double>(before.constants.minus_lr)) * g_size / divisor;
      const auto rounding = [](double value, Element element) {
        return element == Element::f32 ? 0 : spacing(value, element) * 0.5000001;
      };
      // If the terms of a gradient cancel, the relative error of the squared gradient exceeds a few
      // units in the last place, so the bound uses the sizes of the terms.
      const double s_error = 8 * u * (before.state.get(i) + g_size * g_size) + 0x1p-148;
      const double root_error = s > s_error ? s_error / std::sqrt(s) : std::sqrt(s_error);
      ASSERT_NEAR(after.params.get(i), p - update,
                  2 * u * std::abs(p) + size * (12 * u + root_error / divisor) +
                      rounding(std::abs(p) + size, after.params.element()) + 0x1p-148)
          << "case " << round << " element " << i;
      ASSERT_NEAR(after.state.get(i), s, s_error + rounding(s, after.state.element()))
          << "case " << round;
    }
  }
}

}  // namespace
