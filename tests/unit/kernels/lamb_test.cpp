// Tests that the LAMB kernels for all instruction sets and the CUDA thread blocks give bitwise
// equal results that are close to exact arithmetic. The thread blocks run on the host.
#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/lamb_blocks.h"
#include "unit/kernels/device_elements.h"
#include "unit/kernels/rounds.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

/// Runs a block's threads in reverse order. Results must not depend on the order.
struct HostThreadsBackwards {
  template <typename Function>
  void operator()(const Function& function) const {
    for (int thread = lamb_lanes; thread-- > 0;) function(thread);
  }
};

struct Case {
  Array p, g, m, v, copy;
  bool has_copy;

  LambArrays arrays() {
    return {p.data(),       has_copy ? copy.data() : nullptr,
            m.data(),       v.data(),
            g.data(),       p.element(),
            copy.element(), g.element(),
            m.element()};
  }
};

Case random_case(Random& random, bool special) {
  const Element param = random.element();
  const Element state = random.beside(param);
  const Element grad = param == Element::f32 ? random.element() : random.beside(param);
  const std::int64_t n =
      random.once_in(2) ? random.length() : random.whole(0, 3 * lamb_block + 300);
  Case out{Array(param, n, random.offset()),
           Array(grad, n, random.offset()),
           Array(state, n, random.offset()),
           Array(state, n, random.offset()),
           Array(random.element(), n, random.offset()),
           random.once_in(2)};
  fill(out.p, random, false, special);
  fill(out.g, random, false, special);
  fill(out.m, random, false, special);
  fill(out.v, random, true, special);
  fill(out.copy, random, false, false);
  return out;
}

LambConstants random_constants(Random& random) {
  const bool plain = random.once_in(4);
  return {.beta1 = 0.9F,
          .one_minus_beta1 = 0.1F,
          .beta2 = 0.99F,
          .one_minus_beta2 = 0.01F,
          .eps = random.once_in(8) ? 0.0F : 1e-6F,
          .grad_scale = plain ? 1.0F : 3.0F,
          .decay = plain ? 0.0F : 0.1F,
          .eps_inside = random.once_in(2)};
}

constexpr LambBounds bounds{.step_size = 0.01, .max_coeff = 10, .min_coeff = 0.01};

std::int64_t blocks_of(std::int64_t size) { return (size + lamb_block - 1) / lamb_block; }

LambRate cpu_step(Isa isa, const LambConstants& constants, Case& arguments) {
  const std::int64_t size = arguments.p.size();
  std::vector<LambNorms> parts;
  for (std::int64_t begin = 0; begin < size; begin += lamb_block)
    parts.push_back(lamb_moments(isa, constants, arguments.arrays(), begin,
                                 std::min(size, begin + lamb_block)));
  LambNorms lanes[lamb_lanes];
  lamb_total(parts.data(), static_cast<std::int64_t>(parts.size()), lanes, HostThreads{});
  const LambRate rate = lamb_rate(lanes[0], bounds);
  lamb_apply(isa, constants, rate.rate, arguments.arrays(), 0, size);
  return rate;
}

/// Runs the three launches of lamb.cu, starting with the last block.
template <typename P, typename G, typename S, typename Each>
LambRate device_step(const LambConstants& constants, Case& arguments, const Each& each) {
  const std::int64_t size = arguments.p.size();
  std::vector<LambNorms> parts(static_cast<std::size_t>(blocks_of(size)));
  // The initial values simulate shared memory with data left over from an earlier block.
  std::vector<LambNorms> lanes(lamb_lanes, LambNorms{1e300, 1e300});
  for (std::int64_t block = blocks_of(size); block-- > 0;) {
    lamb_moments_block<P, G, S>(constants, arguments.arrays(), size, block, lanes.data(), each);
    parts[static_cast<std::size_t>(block)] = lanes[0];
  }
  lamb_total(parts.data(), static_cast<std::int64_t>(parts.size()), lanes.data(), each);
  const LambRate rate = lamb_rate(lanes[0], bounds);
  for (std::int64_t block = blocks_of(size); block-- > 0;)
    with_device_type(arguments.copy.element(), [&](auto c) {
      auto* const copy = static_cast<decltype(c)*>(arguments.arrays().copy);
      lamb_apply_block<P, S>(constants, rate.rate, arguments.arrays(), copy, size, block, each);
    });
  return rate;
}

void expect_same(const Case& ours, const Case& expected, const LambRate& rate,
                 const LambRate& expected_rate, const std::string& what) {
  EXPECT_TRUE(std::bit_cast<std::uint32_t>(rate.coefficient) ==
                  std::bit_cast<std::uint32_t>(expected_rate.coefficient) ||
              (std::isnan(rate.coefficient) && std::isnan(expected_rate.coefficient)))
      << what << ": " << rate.coefficient << " and " << expected_rate.coefficient;
  op_tests::expect_same(ours.p, expected.p, what + " p");
  op_tests::expect_same(ours.m, expected.m, what + " m");
  op_tests::expect_same(ours.v, expected.v, what + " v");
  op_tests::expect_same(ours.copy, expected.copy, what + " copy");
  op_tests::expect_same(ours.g, expected.g, what + " g");
}

// Fails if kernels differ in any bit. Covers the order of sums, tails, blocks, barriers, all types
// and the rounding of states.
TEST(Lamb, AllKernelsAreBitwiseEqual) {
  Random random(41);
  for (int i = 0; i < rounds(120); ++i) {
    const LambConstants constants = random_constants(random);
    const Case begin = random_case(random, random.once_in(3));
    Case expected = begin;
    const LambRate rate = cpu_step(Isa::scalar, constants, expected);
    for (const Isa isa : sets()) {
      Case ours = begin;
      const LambRate found = cpu_step(isa, constants, ours);
      expect_same(ours, expected, found, rate, to_string(isa));
    }
    const auto on_device = [&](auto p, auto g, auto s) {
      Case ours = begin;
      const LambRate found =
          device_step<decltype(p), decltype(g), decltype(s)>(constants, ours, HostThreads{});
      expect_same(ours, expected, found, rate, "device");
      Case other = begin;
      const LambRate backwards = device_step<decltype(p), decltype(g), decltype(s)>(
          constants, other, HostThreadsBackwards{});
      expect_same(other, expected, backwards, rate, "device, backwards");
    };
    if (begin.p.element() == Element::f32)
      with_device_type(begin.g.element(), [&](auto g) { on_device(float(), g, float()); });
    else
      with_device_types(begin.p.element(), begin.g.element(), begin.m.element(), on_device);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Fails if a result is not close to exact arithmetic. Covers the moments, the update, both
// positions of eps, weight decay, the bounds of the trust ratio, and the low-precision copy.
TEST(Lamb, IsCloseToExactArithmetic) {
  Random random(42);
  for (int i = 0; i < 60; ++i) {
    const LambConstants c = random_constants(random);
    Case arguments = random_case(random, false);
    if (arguments.p.element() != Element::f32 || arguments.p.size() == 0) continue;
    const Case before = arguments;
    const LambRate rate = cpu_step(sets().back(), c, arguments);
    double weight = 0;
    double update = 0;
    std::vector<double> u;
    for (std::int64_t j = 0; j < before.p.size(); ++j) {
      const double g = before.g.get(j) / c.grad_scale;
      const double m = c.beta1 * before.m.get(j) + c.one_minus_beta1 * g;
      const double v = c.beta2 * before.v.get(j) + c.one_minus_beta2 * g * g;
      EXPECT_NEAR(arguments.m.get(j), m, 1e-6 * (std::abs(before.m.get(j)) + std::abs(g)));
      EXPECT_NEAR(arguments.v.get(j), v, 1e-6 * v);
      const double divisor = c.eps_inside ? std::sqrt(v + c.eps) : std::sqrt(v) + c.eps;
      u.push_back(m / divisor + c.decay * before.p.get(j));
      weight += before.p.get(j) * before.p.get(j);
      update += u.back() * u.back();
    }
    const double ratio = std::clamp(std::sqrt(weight / update), bounds.min_coeff, bounds.max_coeff);
    EXPECT_NEAR(rate.coefficient, ratio, 1e-4 * ratio);
    for (std::int64_t j = 0; j < before.p.size(); ++j) {
      const double p = before.p.get(j) - bounds.step_size * ratio * u[static_cast<std::size_t>(j)];
      const double allowed =
          1e-6 * std::abs(before.p.get(j)) +
          1e-3 * bounds.step_size * ratio * std::abs(u[static_cast<std::size_t>(j)]) + 1e-7;
      EXPECT_NEAR(arguments.p.get(j), p, allowed);
      if (arguments.has_copy) {
        EXPECT_EQ(arguments.copy.get(j), rounded(arguments.p.get(j), arguments.copy.element()));
      }
    }
  }
}

// Fails if the trust ratio exceeds a bound, or a norm of zero gives a trust ratio other than 1.
TEST(Lamb, TrustRatioIsClamped) {
  EXPECT_EQ(lamb_rate({16, 4}, bounds).coefficient, 2.0F);
  EXPECT_EQ(lamb_rate({1e8, 4}, bounds).coefficient, 10.0F);
  EXPECT_EQ(lamb_rate({1e-8, 4}, bounds).coefficient, 0.01F);
  EXPECT_EQ(lamb_rate({0, 4}, bounds).coefficient, 1.0F);
  EXPECT_EQ(lamb_rate({4, 0}, bounds).coefficient, 1.0F);
  EXPECT_EQ(lamb_rate({16, 4}, bounds).rate, 0.02F);
  EXPECT_TRUE(std::isnan(lamb_rate({std::nan(""), 4}, bounds).coefficient));
}

}  // namespace
