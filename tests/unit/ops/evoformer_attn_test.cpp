// Attention with two biases: the kernels of all instruction sets, double, and what blocks of threads do on CUDA, run by the host, against
// plain loops in double; nothing outside of an array is written.
#include <memory>

#include "ops/evoformer_attn/blocks.h"
#include "ops/evoformer_attn/kernels.h"
#include "unit/ops/device_elements.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A call [batch, entries, length, heads, dim], and what it gives.
struct Case {
  std::int64_t batch, entries, queries, keys, heads, dim;
  double scale;
  Array q, k, v, bias1, bias2, grad;
  bool has1, has2;

  std::int64_t row(std::int64_t b, std::int64_t n, std::int64_t length, std::int64_t l, std::int64_t h) const {
    return (((b * entries + n) * length + l) * heads + h) * dim;
  }
  std::int64_t place1(std::int64_t b, std::int64_t n) const { return (b * entries + n) * keys; }
  std::int64_t place2(std::int64_t b, std::int64_t h) const { return (b * heads + h) * queries * keys; }
  std::int64_t place_lse(std::int64_t b, std::int64_t n, std::int64_t h) const {
    return ((b * entries + n) * heads + h) * queries;
  }
};

struct Result {
  std::vector<double> out, lse, dq, dk, dv, dbias1, dbias2;
};

void fill_bias(Array& bias, Random& random, double hidden) {
  for (std::int64_t i = 0; i < bias.size(); ++i)
    bias.set(i, random.between(0, 1) < hidden ? -infinity : random.between(-2, 2));
}

Case random_case(Random& random, Element element) {
  const std::int64_t batch = random.whole(1, 2), entries = random.whole(1, 3), heads = random.whole(1, 2);
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
    // Beside such a mask the scores are still exact, in sixty-fourths, and the logarithm of their sum is not.
    for (Array* coarse : {&out.q, &out.k, &out.bias2})
      for (std::int64_t i = 0; i < coarse->size(); ++i) coarse->set(i, std::round(4 * coarse->get(i)) / 4);
    for (std::int64_t i = 0; i < out.bias1.size(); ++i) out.bias1.set(i, -16384);
    out.scale = 0.25;
    out.has1 = true;
  } else if (random.once_in(4)) {
    for (std::int64_t i = 0; i < out.bias1.size(); ++i) out.bias1.set(i, i % 2 ? -16384 : 300);
  }
  return out;
}

/// `rounding` is what the result is rounded to before the backward pass sees it.
Result plain(const Case& c, Element rounding) {
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
            for (std::int64_t i = 0; i < c.dim; ++i) score += c.q.get(q + i) * c.scale * c.k.get(k + i);
            if (c.has1) score += c.bias1.get(c.place1(b, n) + key);
            if (c.has2) score += c.bias2.get(c.place2(b, h) + query * c.keys + key);
            at(weights, key) = score;
            most = std::max(most, score);
          }
          for (double& weight : weights) sum += weight = most == -infinity ? 0 : std::exp(weight - most);
          at(r.lse, c.place_lse(b, n, h) + query) = sum == 0 ? -infinity : most + std::log(sum);
          for (double& weight : weights) weight = sum == 0 ? 0 : weight / sum;
          for (std::int64_t i = 0; i < c.dim; ++i) {
            double value = 0;
            for (std::int64_t key = 0; key < c.keys; ++key)
              value += at(weights, key) * c.v.get(c.row(b, n, c.keys, key, h) + i);
            at(r.out, q + i) = value;
            shared += (rounding == Element::f32 ? value : rounded(value, rounding)) * c.grad.get(q + i);
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

/// Memory with guards: `Real` numbers from a cache line on, all of them no number at first.
template <typename Real>
struct Guarded {
  std::size_t size;
  std::unique_ptr<Real, decltype(&std::free)> memory;

  explicit Guarded(std::int64_t count)
      : size(static_cast<std::size_t>(count)),
        memory(static_cast<Real*>(std::aligned_alloc(64, (size * sizeof(Real) + 191) / 64 * 64)), &std::free) {
    std::fill_n(memory.get(), size, std::numeric_limits<Real>::quiet_NaN());
    std::memset(end(), 0xa5, 64);
  }
  Real* data() const { return memory.get(); }
  unsigned char* end() const { return reinterpret_cast<unsigned char*>(memory.get() + size); }
  void zero() const { std::fill_n(memory.get(), size, Real{0}); }
  void expect_whole(const std::string& what) const {
    for (int i = 0; i < 64; ++i) ASSERT_EQ(end()[i], 0xa5) << what << ": byte " << i << " behind";
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

void expect_near(const Array& ours, const std::vector<double>& want, double error, const std::string& what) {
  for (std::int64_t i = 0; i < ours.size(); ++i) {
    const double right = want[static_cast<std::size_t>(i)];
    ASSERT_NEAR(ours.get(i), right, error * (1 + std::abs(right))) << what << " element " << i;
  }
  EXPECT_TRUE(ours.guards_whole()) << what;
}

double error_of(Element element) { return element == Element::f32 ? 3e-5 : element == Element::fp16 ? 2e-3 : 1.6e-2; }

/// Results and gradients of a call in memory.
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
    // Sums of the unrounded, but for the shared part of a query, which comes of the result as it was rounded.
    if (c.has1) shares.expect_near(want.dbias1, element == Element::f32 ? 1e-4 : error, what + " dbias1");
    if (c.has2) dbias2.expect_near(want.dbias2, element == Element::f32 ? 1e-4 : error, what + " dbias2");
  }
};

template <typename Head>
void place_head(Head& head, Case& c, std::int64_t b, std::int64_t n, std::int64_t h) {
  const int size = size_of(c.q.element());
  const auto at = [&](Array& array, std::int64_t i) { return static_cast<char*>(array.data()) + i * size; };
  head.q = at(c.q, c.row(b, n, c.queries, 0, h));
  head.k = at(c.k, c.row(b, n, c.keys, 0, h));
  head.v = at(c.v, c.row(b, n, c.keys, 0, h));
  head.bias1 = c.has1 ? at(c.bias1, c.place1(b, n)) : nullptr;
  head.bias2 = c.has2 ? at(c.bias2, c.place2(b, h)) : nullptr;
}

Outputs kernels(Isa isa, Case& c) {
  Outputs o(c);
  const Element element = c.q.element();
  const int size = size_of(element);
  const std::int64_t row = c.heads * c.dim;
  const auto at = [&](Array& array, std::int64_t i) { return static_cast<char*>(array.data()) + i * size; };
  Guarded<float> forward(evoformer_forward_scratch(c.keys, c.dim)), backward(evoformer_backward_scratch(c.keys, c.dim));
  Guarded<float> share(c.keys);
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t n = 0; n < c.entries; ++n)
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const std::int64_t q = c.row(b, n, c.queries, 0, h), k = c.row(b, n, c.keys, 0, h);
        EvoformerHead<float> head{};
        place_head(head, c, b, n, h);
        head.q_row = head.k_row = head.v_row = head.out_row = row;
        head.queries = c.queries;
        head.keys = c.keys;
        head.dim = c.dim;
        head.scale = static_cast<float>(c.scale);
        head.bias2_row = c.keys;
        head.out = at(o.out, q);
        head.lse = o.lse.data() + c.place_lse(b, n, h);
        // In parts, the last one first.
        for (std::int64_t begin = (c.queries - 1) / evoformer_tile * evoformer_tile; begin >= 0;
             begin -= evoformer_tile)
          evoformer_forward(isa, element, head, begin, std::min(c.queries, begin + evoformer_tile), forward.data());
        const EvoformerGrads<float> grads{.grad_out = at(c.grad, q),
                                          .grad_row = row,
                                          .dq = at(o.dq, q),
                                          .dk = at(o.dk, k),
                                          .dv = at(o.dv, k),
                                          .dq_row = row,
                                          .dk_row = row,
                                          .dv_row = row,
                                          .dbias1 = c.has1 ? share.data() : nullptr,
                                          .dbias2 = c.has2 ? o.dbias2.data() + c.place2(b, h) : nullptr};
        evoformer_backward(isa, element, head, grads, backward.data());
        for (std::int64_t i = 0; c.has1 && i < c.keys; ++i) o.shares.data()[c.place1(b, n) + i] += share.data()[i];
      }
  forward.expect_whole("forward's scratch");
  backward.expect_whole("backward's scratch");
  share.expect_whole("share");
  return o;
}

// Broken by a wrong formula in either direction, a bias of another head or entry, a chunk or a tile that is left out, an end that is read or
// written beside, scratch memory that is too small or of before, and a logarithm of a sum that is taken for exact where it is large.
TEST(EvoformerAttention, KernelsAgreeWithPlainLoops) {
  Random random(71);
  for (int i = 0; i < 24; ++i) {
    Case c = random_case(random, static_cast<Element>(i % 3));
    for (const Isa isa : sets()) {
      if (isa == Isa::scalar && i % 4) continue;  // slow
      kernels(isa, c).compare(c, std::string(to_string(isa)) + " case " + std::to_string(i));
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

/// Threads of a block in either order: a phase that needs one is wrong on a device.
struct Lanes {
  bool backwards;

  template <typename Function>
  void operator()(const Function& function) const {
    for (int i = 0; i < evoformer_lanes; ++i) function(backwards ? evoformer_lanes - 1 - i : i);
  }
};

template <typename Real>
EvoformerLaunch<Real> launch_of(Case& c) {
  EvoformerLaunch<Real> out{};
  const auto array = [&](Array& values, std::int64_t length) {
    return EvoformerArray<const void*>{values.data(), c.entries * length * c.heads * c.dim, length * c.heads * c.dim,
                                       c.heads * c.dim, c.dim};
  };
  out.q = array(c.q, c.queries);
  out.k = array(c.k, c.keys);
  out.v = array(c.v, c.keys);
  out.grad = array(c.grad, c.queries);
  if (c.has1) out.bias1 = {c.bias1.data(), c.entries * c.keys, c.keys, 0, 0};
  if (c.has2) out.bias2 = {c.bias2.data(), c.heads * c.queries * c.keys, 0, c.keys, c.queries * c.keys};
  out.batch = c.batch;
  out.entries = c.entries;
  out.queries = c.queries;
  out.keys = c.keys;
  out.heads = c.heads;
  out.dim = c.dim;
  out.scale = static_cast<Real>(c.scale);
  return out;
}

/// The launches of attention.cu, the last block first.
template <typename T>
Outputs device(Case& c, bool backwards) {
  Outputs o(c);
  EvoformerLaunch<float> launch = launch_of<float>(c);
  const auto like = [](const EvoformerArray<const void*>& array, Array& to) {
    return EvoformerArray<void*>{to.data(), array.batch, array.entry, array.row, array.head};
  };
  launch.out = like(launch.q, o.out);
  launch.dq = like(launch.q, o.dq);
  launch.dk = like(launch.k, o.dk);
  launch.dv = like(launch.k, o.dv);
  launch.lse = {o.lse.data(), c.entries * c.heads * c.queries, c.heads * c.queries, 1, c.queries};
  launch.dbias1 = c.has1 ? o.shares.data() : nullptr;
  launch.dbias2 = c.has2 ? o.dbias2.data() : nullptr;
  Guarded<float> rows(3 * launch.all_heads() * c.queries), shared(evoformer_shared(c.dim));
  launch.rows = rows.data();
  const Lanes each{backwards};
  const auto run = [&](std::int64_t length, const auto& step) {
    const std::int64_t tiles = evoformer_tiles(length);
    for (std::int64_t task = launch.all_heads() * tiles; task-- > 0;)
      step(EvoformerBlock<T, float, Lanes>(launch, each, task, tiles, shared.data()));
  };
  run(c.queries, [](const auto& block) { block.forward(); });
  run(c.queries, [](const auto& block) { block.prepare(); });
  run(c.queries, [](const auto& block) { block.backward_queries(); });
  run(c.keys, [](const auto& block) { block.backward_keys(); });
  rows.expect_whole("rows");
  shared.expect_whole("shared memory");
  return o;
}

// Broken by the same, and by a phase without its barrier.
TEST(EvoformerAttention, BlocksAgreeWithPlainLoops) {
  Random random(72);
  for (int i = 0; i < 18; ++i) {
    Case c = random_case(random, static_cast<Element>(i % 3));
    with_device_type(c.q.element(),
                     [&](auto t) { device<decltype(t)>(c, i % 2).compare(c, "device, case " + std::to_string(i)); });
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Broken when doubles go through floats, in the host's kernels or on a device.
TEST(EvoformerAttention, DoublesAreDoubles) {
  Random random(73);
  Case c = random_case(random, Element::f32);
  c.has1 = c.has2 = true;
  fill_bias(c.bias1, random, 0.2);
  fill_bias(c.bias2, random, 0.2);
  const Result want = plain(c, Element::f32);
  const auto wide = [](const Array& array) {
    Guarded<double> out(array.size());
    for (std::int64_t i = 0; i < array.size(); ++i) out.data()[i] = array.get(i);
    return out;
  };
  const Guarded<double> q = wide(c.q), k = wide(c.k), v = wide(c.v), bias1 = wide(c.bias1), bias2 = wide(c.bias2),
                        grad = wide(c.grad);
  for (const bool on_device : {false, true}) {
    Guarded<double> out(c.q.size()), dq(c.q.size()), dk(c.k.size()), dv(c.k.size()),
        lse(static_cast<std::int64_t>(want.lse.size()));
    Guarded<double> dbias1(c.bias1.size()), dbias2(c.bias2.size());
    dbias1.zero();
    dbias2.zero();
    if (on_device) {
      EvoformerLaunch<double> launch = launch_of<double>(c);
      launch.q.at = q.data();
      launch.k.at = k.data();
      launch.v.at = v.data();
      launch.grad.at = grad.data();
      launch.bias1.at = bias1.data();
      launch.bias2.at = bias2.data();
      const auto like = [](const EvoformerArray<const void*>& array, double* to) {
        return EvoformerArray<void*>{to, array.batch, array.entry, array.row, array.head};
      };
      launch.out = like(launch.q, out.data());
      launch.dq = like(launch.q, dq.data());
      launch.dk = like(launch.k, dk.data());
      launch.dv = like(launch.k, dv.data());
      launch.lse = {lse.data(), c.entries * c.heads * c.queries, c.heads * c.queries, 1, c.queries};
      launch.dbias1 = dbias1.data();
      launch.dbias2 = dbias2.data();
      Guarded<double> rows(3 * launch.all_heads() * c.queries), shared(evoformer_shared(c.dim));
      launch.rows = rows.data();
      const Lanes each{false};
      for (int step = 0; step < 4; ++step) {
        const std::int64_t tiles = evoformer_tiles(step == 3 ? c.keys : c.queries);
        for (std::int64_t task = 0; task < launch.all_heads() * tiles; ++task) {
          const EvoformerBlock<double, double, Lanes> block(launch, each, task, tiles, shared.data());
          if (step == 0) block.forward();
          if (step == 1) block.prepare();
          if (step == 2) block.backward_queries();
          if (step == 3) block.backward_keys();
        }
      }
    } else {
      Guarded<double> scratch(
          std::max(evoformer_forward_scratch(c.keys, c.dim), evoformer_backward_scratch(c.keys, c.dim)));
      Guarded<double> share(c.keys);
      const std::int64_t row = c.heads * c.dim;
      for (std::int64_t head = 0; head < c.batch * c.entries * c.heads; ++head) {
        const std::int64_t b = head / (c.entries * c.heads), n = head / c.heads % c.entries, h = head % c.heads;
        const std::int64_t at = c.row(b, n, c.queries, 0, h), key = c.row(b, n, c.keys, 0, h);
        const EvoformerHead<double> one{q.data() + at,
                                        k.data() + key,
                                        v.data() + key,
                                        row,
                                        row,
                                        row,
                                        c.queries,
                                        c.keys,
                                        c.dim,
                                        c.scale,
                                        bias1.data() + c.place1(b, n),
                                        bias2.data() + c.place2(b, h),
                                        c.keys,
                                        out.data() + at,
                                        row,
                                        lse.data() + c.place_lse(b, n, h)};
        evoformer_forward(one, 0, c.queries, scratch.data());
        evoformer_backward(one,
                           {grad.data() + at, row, dq.data() + at, dk.data() + key, dv.data() + key, row, row, row,
                            share.data(), dbias2.data() + c.place2(b, h)},
                           scratch.data());
        for (std::int64_t i = 0; i < c.keys; ++i) dbias1.data()[c.place1(b, n) + i] += share.data()[i];
      }
    }
    const std::string what = on_device ? "device " : "host ";
    out.expect_near(want.out, 1e-12, what + "out");
    lse.expect_near(want.lse, 1e-12, what + "lse");
    dq.expect_near(want.dq, 1e-12, what + "dq");
    dk.expect_near(want.dk, 1e-12, what + "dk");
    dv.expect_near(want.dv, 1e-12, what + "dv");
    dbias1.expect_near(want.dbias1, 1e-12, what + "dbias1");
    dbias2.expect_near(want.dbias2, 1e-12, what + "dbias2");
  }
}

}  // namespace
