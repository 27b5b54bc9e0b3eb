// Test cases for attention with two biases, and a reference implementation in double precision that
// computes the expected results.
#pragma once

#include <memory>

#include "kernels/simd/isa.h"
#include "unit/kernels/arrays.h"

namespace op_tests::evoformer {

using namespace anyaccel::ops;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A call with tensors of shape [batch, entries, length, heads, dim].
struct Case {
  std::int64_t batch, entries, queries, keys, heads, dim;
  double scale;
  Array q, k, v, bias1, bias2, grad;
  bool has1, has2;

  std::int64_t row(std::int64_t b, std::int64_t n, std::int64_t length, std::int64_t l,
                   std::int64_t h) const {
    return (((b * entries + n) * length + l) * heads + h) * dim;
  }
  std::int64_t place1(std::int64_t b, std::int64_t n) const { return (b * entries + n) * keys; }
  std::int64_t place2(std::int64_t b, std::int64_t h) const {
    return (b * heads + h) * queries * keys;
  }
  std::int64_t place_lse(std::int64_t b, std::int64_t n, std::int64_t h) const {
    return ((b * entries + n) * heads + h) * queries;
  }
};

struct Result {
  std::vector<double> out, lse, dq, dk, dv, dbias1, dbias2;
};

inline void fill_bias(Array& bias, Random& random, double hidden) {
  for (std::int64_t i = 0; i < bias.size(); ++i)
    bias.set(i, random.between(0, 1) < hidden ? -infinity : random.between(-2, 2));
}

inline Case random_case(Random& random, Element element) {
  const std::int64_t batch = random.whole(1, 2), entries = random.whole(1, 3),
                     heads = random.whole(1, 2);
  const std::int64_t queries = random.once_in(3) ? random.whole(60, 140) : random.whole(1, 40);
  const std::int64_t keys = random.once_in(3) ? random.whole(240, 300) : random.whole(1, 70);
  const std::int64_t dim = random.once_in(2) ? 16 * random.whole(1, 3) : random.whole(1, 40);
  const auto array = [&](std::int64_t size) {
    Array out(element, size, random.offset());
    for (std::int64_t i = 0; i < size; ++i) out.set(i, random.between(-1.5, 1.5));
    return out;
  };
  Case out{batch,
           entries,
           queries,
           keys,
           heads,
           dim,
           1 / std::sqrt(static_cast<double>(dim)),
           array(batch * entries * queries * heads * dim),
           array(batch * entries * keys * heads * dim),
           array(batch * entries * keys * heads * dim),
           array(batch * entries * keys),
           array(batch * heads * queries * keys),
           array(batch * entries * queries * heads * dim),
           !random.once_in(4),
           !random.once_in(4)};
  fill_bias(out.bias1, random, random.once_in(3) ? random.between(0, 1) : 0);
  fill_bias(out.bias2, random, random.once_in(3) ? random.between(0, 1) : 0);
  if (random.once_in(3)) {
    // Rounds the inputs to multiples of 1/4. Scores are then multiples of 1/64, which are exact
    // even with this large bias. Their log-sum-exp is not exact.
    for (Array* coarse : {&out.q, &out.k, &out.bias2})
      for (std::int64_t i = 0; i < coarse->size(); ++i)
        coarse->set(i, std::round(4 * coarse->get(i)) / 4);
    for (std::int64_t i = 0; i < out.bias1.size(); ++i) out.bias1.set(i, -16384);
    out.scale = 0.25;
    out.has1 = true;
  } else if (random.once_in(4)) {
    for (std::int64_t i = 0; i < out.bias1.size(); ++i) out.bias1.set(i, i % 2 ? -16384 : 300);
  }
  return out;
}

/// Computes the expected results. `rounding` is the type to which the output is rounded before it
/// is used in the backward pass.
inline Result plain(const Case& c, Element rounding) {
  Result r;
  const auto size = [](std::int64_t n) { return std::vector<double>(static_cast<std::size_t>(n)); };
  r.out = r.dq = size(c.q.size());
  r.dk = r.dv = size(c.k.size());
  r.lse = size(c.batch * c.entries * c.heads * c.queries);
  r.dbias1 = size(c.bias1.size());
  r.dbias2 = size(c.bias2.size());
  const auto at = [](std::vector<double>& values, std::int64_t i) -> double& {
    return values[static_cast<std::size_t>(i)];
  };
  std::vector<double> weights(static_cast<std::size_t>(c.keys));
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t n = 0; n < c.entries; ++n)
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t query = 0; query < c.queries; ++query) {
          const std::int64_t q = c.row(b, n, c.queries, query, h);
          double most = -infinity, sum = 0, shared = 0;
          for (std::int64_t key = 0; key < c.keys; ++key) {
            const std::int64_t k = c.row(b, n, c.keys, key, h);
            double score = 0;
            for (std::int64_t i = 0; i < c.dim; ++i)
              score += c.q.get(q + i) * c.scale * c.k.get(k + i);
            if (c.has1) score += c.bias1.get(c.place1(b, n) + key);
            if (c.has2) score += c.bias2.get(c.place2(b, h) + query * c.keys + key);
            at(weights, key) = score;
            most = std::max(most, score);
          }
          for (double& weight : weights)
            sum += weight = most == -infinity ? 0 : std::exp(weight - most);
          at(r.lse, c.place_lse(b, n, h) + query) = sum == 0 ? -infinity : most + std::log(sum);
          for (double& weight : weights) weight = sum == 0 ? 0 : weight / sum;
          for (std::int64_t i = 0; i < c.dim; ++i) {
            double value = 0;
            for (std::int64_t key = 0; key < c.keys; ++key)
              value += at(weights, key) * c.v.get(c.row(b, n, c.keys, key, h) + i);
            at(r.out, q + i) = value;
            shared +=
                (rounding == Element::f32 ? value : rounded(value, rounding)) * c.grad.get(q + i);
          }
          for (std::int64_t key = 0; key < c.keys; ++key) {
            const std::int64_t k = c.row(b, n, c.keys, key, h);
            double product = 0;
            for (std::int64_t i = 0; i < c.dim; ++i) {
              product += c.grad.get(q + i) * c.v.get(k + i);
              at(r.dv, k + i) += at(weights, key) * c.grad.get(q + i);
            }
            const double change = at(weights, key) * (product - shared);
            for (std::int64_t i = 0; i < c.dim; ++i) {
              at(r.dq, q + i) += change * c.scale * c.k.get(k + i);
              at(r.dk, k + i) += change * c.scale * c.q.get(q + i);
            }
            at(r.dbias1, c.place1(b, n) + key) += change;
            at(r.dbias2, c.place2(b, h) + query * c.keys + key) += change;
          }
        }
  return r;
}

/// Numbers aligned to a cache line, initialized to NaN, with guard bytes after them.
template <typename Real>
struct Guarded {
  std::size_t size;
  std::unique_ptr<Real, decltype(&std::free)> memory;

  explicit Guarded(std::int64_t count)
      : size(static_cast<std::size_t>(count)),
        memory(static_cast<Real*>(std::aligned_alloc(64, (size * sizeof(Real) + 191) / 64 * 64)),
               &std::free) {
    std::fill_n(memory.get(), size, std::numeric_limits<Real>::quiet_NaN());
    std::memset(end(), 0xa5, 64);
  }
  Real* data() const { return memory.get(); }
  unsigned char* end() const { return reinterpret_cast<unsigned char*>(memory.get() + size); }
  void zero() const { std::fill_n(memory.get(), size, Real{0}); }
  void expect_whole(const std::string& what) const {
    for (int i = 0; i < 64; ++i)
      ASSERT_EQ(end()[i], 0xa5) << what << ": byte " << i << " past the end";
  }
  void expect_near(const std::vector<double>& want, double error, const std::string& what) const {
    ASSERT_EQ(size, want.size());
    for (std::size_t i = 0; i < size; ++i)
      if (want[i] == -infinity)
        ASSERT_EQ(static_cast<double>(memory.get()[i]), want[i]) << what << " element " << i;
      else
        ASSERT_NEAR(static_cast<double>(memory.get()[i]), want[i], error * (1 + std::abs(want[i])))
            << what << " element " << i;
    expect_whole(what);
  }
};

inline void expect_near(const Array& ours, const std::vector<double>& want, double error,
                        const std::string& what) {
  for (std::int64_t i = 0; i < ours.size(); ++i) {
    const double right = want[static_cast<std::size_t>(i)];
    ASSERT_NEAR(ours.get(i), right, error * (1 + std::abs(right))) << what << " element " << i;
  }
  EXPECT_TRUE(ours.guards_whole()) << what;
}

inline double error_of(Element element) {
  return element == Element::f32 ? 3e-5 : element == Element::fp16 ? 2e-3 : 1.6e-2;
}

/// Memory for a call's results and gradients.
struct Outputs {
  Array out, dq, dk, dv;
  Guarded<float> lse, shares, dbias2;

  explicit Outputs(const Case& c)
      : out(c.q.element(), c.q.size(), 3),
        dq(c.q.element(), c.q.size(), 5),
        dk(c.q.element(), c.k.size(), 0),
        dv(c.q.element(), c.k.size(), 1),
        lse(c.batch * c.entries * c.heads * c.queries),
        shares(c.batch * c.entries * c.keys),
        dbias2(c.bias2.size()) {
    dbias2.zero();
    shares.zero();
  }

  void compare(const Case& c, const std::string& what) const {
    const Element element = c.q.element();
    const Result want = plain(c, element);
    const double error = error_of(element);
    expect_near(out, want.out, error, what + " out");
    lse.expect_near(want.lse, 3e-5, what + " lse");
    expect_near(dq, want.dq, error, what + " dq");
    expect_near(dk, want.dk, error, what + " dk");
    expect_near(dv, want.dv, error, what + " dv");
    // The terms of these sums are unrounded, except for the term common to all keys of a query,
    // which is computed from the rounded output.
    if (c.has1)
      shares.expect_near(want.dbias1, element == Element::f32 ? 1e-4 : error, what + " dbias1");
    if (c.has2)
      dbias2.expect_near(want.dbias2, element == Element::f32 ? 1e-4 : error, what + " dbias2");
  }
};

/// A call in double precision with both biases, and memory for its results.
struct WideCase {
  Case c;
  Result want;
  Guarded<double> q, k, v, bias1, bias2, grad;
  Guarded<double> out, dq, dk, dv, lse, dbias1, dbias2;

  explicit WideCase(Random& random)
      : c(with_biases(random)),
        want(plain(c, Element::f32)),
        q(wide(c.q)),
        k(wide(c.k)),
        v(wide(c.v)),
        bias1(wide(c.bias1)),
        bias2(wide(c.bias2)),
        grad(wide(c.grad)),
        out(c.q.size()),
        dq(c.q.size()),
        dk(c.k.size()),
        dv(c.k.size()),
        lse(static_cast<std::int64_t>(want.lse.size())),
        dbias1(c.bias1.size()),
        dbias2(c.bias2.size()) {
    dbias1.zero();
    dbias2.zero();
  }

  void compare() const {
    out.expect_near(want.out, 1e-12, "out");
    lse.expect_near(want.lse, 1e-12, "lse");
    dq.expect_near(want.dq, 1e-12, "dq");
    dk.expect_near(want.dk, 1e-12, "dk");
    dv.expect_near(want.dv, 1e-12, "dv");
    dbias1.expect_near(want.dbias1, 1e-12, "dbias1");
    dbias2.expect_near(want.dbias2, 1e-12, "dbias2");
  }

 private:
  static Case with_biases(Random& random) {
    Case c = random_case(random, Element::f32);
    c.has1 = c.has2 = true;
    fill_bias(c.bias1, random, 0.2);
    fill_bias(c.bias2, random, 0.2);
    return c;
  }
  static Guarded<double> wide(const Array& array) {
    Guarded<double> out(array.size());
    for (std::int64_t i = 0; i < array.size(); ++i) out.data()[i] = array.get(i);
    return out;
  }
};

}  // namespace op_tests::evoformer
