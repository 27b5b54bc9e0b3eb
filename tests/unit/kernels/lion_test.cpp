#include "kernels/optimizer/lion.h"

#include "unit/kernels/arrays.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

struct Numbers {
  double lr, beta1, beta2, weight_decay;
};

Numbers random_numbers(Random& random) {
  return {std::pow(10.0, random.between(-6, 0)), random.once_in(8) ? 0 : random.between(0.5, 0.999),
          random.once_in(8) ? 0 : random.between(0.9, 0.99999),
          random.once_in(3) ? 0 : std::pow(10.0, random.between(-5, -1))};
}

struct Case {
  Numbers numbers;
  LionConstants constants;
  Array params, grads, state;
};

Case random_case(Random& random) {
  const Element param = random.element();
  const std::int64_t n = random.length();
  const bool specials = random.once_in(2);
  const Numbers o = random_numbers(random);
  Case out{o, lion_constants(o.lr, o.beta1, o.beta2, o.weight_decay),
           Array(param, n, random.offset()), Array(random.beside(param), n, random.offset()),
           Array(random.beside(param), n, random.offset())};
  for (std::int64_t i = 0; i < n; ++i) {
    out.params.set(i, random.value(-4, 2));
    out.grads.set(i, random.value(-8, 1));
    out.state.set(i, random.value());
    if (!specials || !random.once_in(20)) continue;
    (random.once_in(2) ? out.params : out.grads).set(i, random.special());
    if (random.once_in(3)) out.state.set(i, random.special());
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
  lion_update(isa, of.constants,
              {of.params.data(), of.grads.data(), of.state.data(), of.params.element(),
               of.grads.element(), of.state.element()},
              begin, end);
}

/// Evaluates the formulas of lion.h with scalar float operations.
void float_step(Case& of) {
  const LionConstants& c = of.constants;
  for (std::int64_t i = 0; i < of.params.size(); ++i) {
    auto p = static_cast<float>(of.params.get(i));
    const auto g = static_cast<float>(of.grads.get(i));
    const auto m = static_cast<float>(of.state.get(i));
    const float direction = std::fma(c.one_minus_beta1, g, c.beta1 * m);
    const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : direction;
    if (c.shrink != 0) p = std::fma(c.shrink, p, p);
    of.params.set(i, std::fma(c.minus_lr, sign, p));
    of.state.set(i, std::fma(c.one_minus_beta2, g, c.beta2 * m));
  }
}

// Fails if a result is not bitwise equal to scalar float arithmetic, or a write is out of bounds.
// The 10,000 random cases cover every type, many lengths and alignments, and special values.
TEST(CpuLion, EveryInstructionSetMatchesPlainFloat) {
  Random random(7);
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
TEST(CpuLion, StaysWithinErrorBoundOfDouble) {
  constexpr double u = 0x1p-24;
  Random random(8);
  for (int round = 0; round < rounds(1500); ++round) {
    const Case before = random_case(random);
    Case after = before;
    run(best_isa(), after, 0, after.params.size());
    const Numbers& o = before.numbers;
    for (std::int64_t i = 0; i < after.params.size(); ++i) {
      const double p = before.params.get(i);
      const double g = before.grads.get(i);
      const double m = before.state.get(i);
      if (!(std::abs(p) < 1e4) || !(std::abs(g) < 1e4) || !(std::abs(m) < 1e4)) continue;
      const auto rounding = [](double value, Element element) {
        return element == Element::f32 ? 0 : spacing(value, element) * 0.5000001;
      };
      const double c = o.beta1 * m + (1 - o.beta1) * g;
      const double c_size = std::abs(o.beta1 * m) + std::abs((1 - o.beta1) * g);
      if (std::abs(c) > 4 * u * c_size + 0x1p-148) {  // otherwise the sign depends on rounding
        ASSERT_NEAR(after.params.get(i), p * (1 - o.lr * o.weight_decay) - std::copysign(o.lr, c),
                    4 * u * (std::abs(p) + o.lr) +
                        rounding(std::abs(p) + o.lr, after.params.element()) + 0x1p-148)
            << "case " << round << " element " << i;
      }
      ASSERT_NEAR(after.state.get(i), o.beta2 * m + (1 - o.beta2) * g,
                  4 * u * (std::abs(o.beta2 * m) + std::abs((1 - o.beta2) * g)) +
                      rounding(std::abs(m) + std::abs(g), after.state.element()) + 0x1p-148)
          << "case " << round << " element " << i;
    }
  }
}

// Fails if a parameter with zero gradient and momentum changes. DeepSpeed changes such parameters.
TEST(CpuLion, ZeroGradientAndMomentumChangeNothing) {
  for (const Isa isa : sets()) {
    Case one{{},
             lion_constants(0.1, 0.9, 0.99, 0),
             Array(Element::f32, 3, 0),
             Array(Element::f32, 3, 0),
             Array(Element::f32, 3, 0)};
    for (std::int64_t i = 0; i < 3; ++i) {
      one.params.set(i, 5);
      one.grads.set(i, i == 2 ? std::nan("") : 0);
      one.state.set(i, i == 1 ? -0.0 : 0);
    }
    run(isa, one, 0, 3);
    EXPECT_EQ(one.params.get(0), 5) << to_string(isa);
    EXPECT_EQ(one.params.get(1), 5) << to_string(isa);
    EXPECT_TRUE(std::isnan(one.params.get(2))) << to_string(isa);
  }
}

}  // namespace
