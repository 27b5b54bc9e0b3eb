// Runs the thread blocks of CUDA attention on the host and compares the results with a reference
// implementation in double precision. Covers dense and block-sparse attention, biases, dropout, the
// forward and backward passes, and out-of-bounds writes.
#include "unit/kernels/host_attention.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A bias of shape [batch, heads, queries, keys]. Dimensions of size 1 are broadcast.
struct Added {
  BiasKind kind = BiasKind::none;
  std::int64_t batch = 0, head = 0, row = 0, column = 0;
  std::vector<double> values;  // exactly representable in every type
  bool large = false;

  std::int64_t place(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    return b * batch + h * head + q * row + k * column;
  }
  double of(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (kind == BiasKind::none) return 0;
    const double value = values[static_cast<std::size_t>(place(b, h, q, k))];
    return kind != BiasKind::seen ? value : value != 0 ? 0 : -infinity;
  }
};

struct Case {  // NOLINT(bugprone-reserved-identifier): the compiler-generated index of its arrays
  std::int64_t batch, heads, length;
  int dim, block;
  double scale;
  bool has_layout, shared_layout;
  std::vector<unsigned char> layout;
  Array q, k, v, grad;  // [batch][length][heads][dim]
  Added added[3];
  Dropout dropout;
  std::int64_t drpe_batches, drpe_heads;

  std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t at) const {
    return ((b * length + at) * heads + h) * dim;
  }
  bool sees(std::int64_t h, std::int64_t query, std::int64_t key) const {
    if (!has_layout) return true;
    const std::int64_t blocks = length / block;
    return layout[static_cast<std::size_t>(
               ((shared_layout ? 0 : h) * blocks + query / block) * blocks + key / block)] != 0;
  }
};

/// `value` after rounding to float and then to the element type.
double device_value(double value, Element element) {
  return rounded(rounded(value, Element::f32), element);
}

Added random_added(Random& random, const Case& c, BiasKind kind, Element element) {
  Added out;
  out.kind = kind;
  std::int64_t size = 1;
  const auto stride = [&](std::int64_t length) {
    if (random.once_in(2)) return std::int64_t{0};
    const std::int64_t at = size;
    size *= std::max<std::int64_t>(1, length);
    return at;
  };
  out.column = stride(c.length);
  out.row = stride(c.length);
  out.head = stride(c.heads);
  out.batch = stride(c.batch);
  const bool hides = random.once_in(2);
  out.large = hides && kind != BiasKind::seen && random.once_in(3);
  for (std::int64_t i = 0; i < size; ++i) {
    double value = device_value(random.between(-2, 2), element);
    if (kind == BiasKind::seen)
      value = random.once_in(3) ? 0 : 1;
    else if (hides && random.once_in(3))
      value = out.large ? -16384 : -infinity;
    out.values.push_back(value);
  }
  return out;
}

Case random_case(Random& random, Element element) {
  const std::int64_t batch = random.whole(1, 2), heads = random.whole(1, 3);
  const bool has_layout = random.once_in(2);
  const int block = static_cast<int>(16 * random.whole(1, random.once_in(3) ? 8 : 4));
  const std::int64_t length = has_layout ? block * random.whole(1, std::max(2, 160 / block))
                              : random.once_in(10) ? 0
                                                   : random.whole(1, random.once_in(3) ? 150 : 40);
  const int dim =
      static_cast<int>(random.once_in(2) ? 16 * random.whole(1, 4) : random.whole(0, 70));
  const bool aligned = random.once_in(2);
  const auto array = [&] {
    Array out(element, batch * length * heads * dim, aligned ? 0 : random.offset());
    for (std::int64_t i = 0; i < out.size(); ++i) out.set(i, random.between(-1.5, 1.5));
    return out;
  };
  Case c{batch,      heads,
         length,     dim,
         block,      1 / std::sqrt(std::max(1.0, static_cast<double>(dim))),
         has_layout, random.once_in(3),
         {},         array(),
         array(),    array(),
         array(),    {},
         {},         0,
         0};
  if (has_layout) {
    const std::int64_t blocks = length / block;
    for (std::int64_t i = 0; i < (c.shared_layout ? 1 : heads) * blocks * blocks; ++i)
      c.layout.push_back(random.once_in(2) ? 1 : 0);
  }
  for (Added& added : c.added)
    if (random.once_in(2))
      added = random_added(random, c, static_cast<BiasKind>(random.whole(1, 3)), element);
  if (std::any_of(std::begin(c.added), std::end(c.added),
                  [](const Added& added) { return added.large; })) {
    // Rounds the inputs to multiples of 1/4. Scores are then multiples of 1/64, which are exact
    // even with these large biases.
    for (Array* coarse : {&c.q, &c.k})
      for (std::int64_t i = 0; i < coarse->size(); ++i)
        coarse->set(i, std::round(4 * coarse->get(i)) / 4);
    for (Added& added : c.added)
      for (double& value : added.values) value = std::round(4 * value) / 4;
    c.scale = 0.25;
  }
  if (random.once_in(2))
    c.dropout = {static_cast<std::uint64_t>(random.whole(0, 1 << 30)), 0x40000000U, 4.0 / 3};
  if (random.once_in(2)) {
    c.drpe_batches = random.once_in(2) ? 1 : batch;
    c.drpe_heads = random.once_in(2) ? 1 : heads;
  }
  return c;
}

struct Result {
  std::vector<double> out, stats, dq, dk, dv, drpe;
};

Result plain(const Case& c, Element rounding) {
  const auto zeros = [](std::int64_t n) {
    return std::vector<double>(static_cast<std::size_t>(n));
  };
  const auto at = [](std::vector<double>& values, std::int64_t i) -> double& {
    return values[static_cast<std::size_t>(i)];
  };
  Result r;
  r.out = r.dq = r.dk = r.dv = zeros(c.q.size());
  r.stats = zeros(2 * c.batch * c.heads * c.length);
  r.drpe = zeros(c.drpe_batches * c.drpe_heads * c.length * c.length);
  std::vector<double> weights = zeros(c.length), factors = zeros(c.length);
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t query = 0; query < c.length; ++query) {
        const std::int64_t q = c.row(b, h, query), place = (b * c.heads + h) * c.length + query;
        double most = -infinity, sum = 0, shared = 0;
        for (std::int64_t key = 0; key < c.length; ++key) {
          const std::int64_t k = c.row(b, h, key);
          double score = c.sees(h, query, key) ? 0 : -infinity;
          for (std::int64_t i = 0; i < c.dim; ++i)
            score += c.q.get(q + i) * c.scale * c.k.get(k + i);
          for (const Added& added : c.added) score += added.of(b, h, query, key);
          at(weights, key) = score;
          most = std::max(most, score);
          const std::uint64_t row_key = draws::row_key(c.dropout, place);
          const auto drawn = draws::drawn(static_cast<std::uint32_t>(row_key),
                                          static_cast<std::uint32_t>(row_key >> 32),
                                          static_cast<std::uint32_t>(key));
          at(factors, key) = drawn >= c.dropout.threshold ? c.dropout.scale : 0;
        }
        for (double& weight : weights)
          sum += weight = most == -infinity ? 0 : std::exp(weight - most);
        at(r.stats, 2 * place) = sum == 0 ? 0 : most;
        at(r.stats, 2 * place + 1) = sum == 0 ? 0 : 1 / sum;
        for (double& weight : weights) weight = sum == 0 ? 0 : weight / sum;
        for (std::int64_t i = 0; i < c.dim; ++i) {
          double value = 0;
          for (std::int64_t key = 0; key < c.length; ++key)
            value += at(weights, key) * at(factors, key) * c.v.get(c.row(b, h, key) + i);
          at(r.out, q + i) = value;
          shared +=
              (rounding == Element::f32 ? value : rounded(value, rounding)) * c.grad.get(q + i);
        }
        for (std::int64_t key = 0; key < c.length; ++key) {
          const std::int64_t k = c.row(b, h, key);
          double product = 0;
          for (std::int64_t i = 0; i < c.dim; ++i) {
            product += c.grad.get(q + i) * c.v.get(k + i);
            at(r.dv, k + i) += at(weights, key) * at(factors, key) * c.grad.get(q + i);
          }
          const double change = at(weights, key) * (product * at(factors, key) - shared);
          for (std::int64_t i = 0; i < c.dim; ++i) {
            at(r.dq, q + i) += change * c.scale * c.k.get(k + i);
            at(r.dk, k + i) += change * c.scale * c.q.get(q + i);
          }
          if (!r.drpe.empty())
            at(r.drpe, (((c.drpe_batches > 1 ? b : 0) * c.drpe_heads + (c.drpe_heads > 1 ? h : 0)) *
                            c.length +
                        query) *
                               c.length +
                           key) += change;
        }
      }
  return r;
}

/// An array of the compute dtype, initialized to NaN, with guard elements after it.
template <typename Real>
struct Numbers {
  std::vector<Real> memory;

  explicit Numbers(std::int64_t size)
      : memory(static_cast<std::size_t>(size) + 8, std::numeric_limits<Real>::quiet_NaN()) {}
  void expect_near(const std::vector<double>& want, double error, const std::string& what) const {
    ASSERT_EQ(memory.size(), want.size() + 8);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(static_cast<double>(memory[i]), want[i], error * (1 + std::abs(want[i])))
          << what << " " << i;
    for (std::size_t i = want.size(); i < memory.size(); ++i)
      ASSERT_TRUE(std::isnan(memory[i])) << what << " past the end";
  }
};

/// A device tensor: the memory of an Array or, if T is double, a copy of it in double precision.
template <typename T>
struct Device {
  std::vector<double> wide;
  void* at;

  explicit Device(Array& array) : at(array.data()) {
    if constexpr (std::is_same_v<T, double>) {
      for (std::int64_t i = 0; i < array.size(); ++i) wide.push_back(array.get(i));
      at = wide.data();
    }
  }
};

template <typename T, typename Real>
void compare(Case& c, Run run, double error, const std::string& what) {
  const Element element = c.q.element();
  Device<T> q(c.q), k(c.k), v(c.v), grad(c.grad);
  Array arrays[4] = {Array(element, c.q.size(), 3), Array(element, c.q.size(), 5),
                     Array(element, c.q.size(), 0), Array(element, c.q.size(), 1)};
  for (Array& array : arrays)
    for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, 77);
  Device<T> out(arrays[0]), dq(arrays[1]), dk(arrays[2]), dv(arrays[3]);
  Numbers<Real> stats(2 * c.batch * c.heads * c.length), delta(c.batch * c.heads * c.length),
      drpe(c.drpe_batches * c.drpe_heads * c.length * c.length);
  AttentionLaunch<Real> launch{};
  const auto arguments = [&](const Device<T>& from) {
    return HeadArray<const void*>{from.at, c.length * c.heads * c.dim, c.dim, c.heads * c.dim};
  };
  const auto made = [&](const Device<T>& to) {
    return HeadArray<void*>{to.at, c.length * c.heads * c.dim, c.dim, c.heads * c.dim};
  };
  launch.q = arguments(q);
  launch.k = arguments(k);
  launch.v = arguments(v);
  launch.grad = arguments(grad);
  launch.out = made(out);
  launch.dq = made(dq);
  launch.dk = made(dk);
  launch.dv = made(dv);
  std::vector<std::vector<T>> narrow(3);
  std::vector<std::vector<Real>> wide(3);
  std::vector<std::vector<unsigned char>> bytes(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const Added& from = c.added[i];
    const void* at = nullptr;
    for (const double value : from.values) {
      narrow[i].push_back(static_cast<T>(static_cast<Real>(value)));
      wide[i].push_back(static_cast<Real>(value));
      bytes[i].push_back(value != 0);
    }
    if (from.kind == BiasKind::element) at = narrow[i].data();
    if (from.kind == BiasKind::real) at = wide[i].data();
    if (from.kind == BiasKind::seen) at = bytes[i].data();
    launch.bias[i] = {at, from.batch, from.head, from.row, from.column, from.kind};
  }
  launch.stats = stats.memory.data();
  launch.delta = delta.memory.data();
  launch.drpe = c.drpe_batches ? drpe.memory.data() : nullptr;
  launch.drpe_batches = c.drpe_batches;
  launch.drpe_heads = c.drpe_heads;
  launch.layout = c.has_layout ? c.layout.data() : nullptr;
  launch.blocks = c.length / c.block;
  launch.layout_head = c.shared_layout ? 0 : launch.blocks * launch.blocks;
  launch.batch = c.batch;
  launch.heads = c.heads;
  launch.length = c.length;
  launch.dim = c.dim;
  launch.block = c.block;
  const auto even = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  launch.vectors = c.dim * static_cast<int>(sizeof(T)) % 16 == 0 && even(q.at) && even(k.at) &&
                   even(v.at) && even(grad.at);
  launch.scale = static_cast<Real>(c.scale);
  launch.dropout = c.dropout;

  run_attention_forward<T>(launch, run);
  run_attention_backward<T>(launch, run);

  const Result want = plain(c, std::is_same_v<T, double> ? Element::f32 : element);
  const std::vector<double>* const wanted[] = {&want.out, &want.dq, &want.dk, &want.dv};
  const Device<T>* const found[] = {&out, &dq, &dk, &dv};
  const char* const names[] = {" out", " dq", " dk", " dv"};
  for (int i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < wanted[i]->size(); ++j) {
      const double right = (*wanted[i])[j];
      const double ours =
          found[i]->wide.empty() ? arrays[i].get(static_cast<std::int64_t>(j)) : found[i]->wide[j];
      ASSERT_NEAR(ours, right, error * (1 + std::abs(right))) << what << names[i] << " " << j;
    }
    EXPECT_TRUE(arrays[i].guards_whole()) << what << names[i];
  }
  const double real_error = std::is_same_v<Real, double> ? 1e-12 : 3e-5;
  stats.expect_near(want.stats, real_error, what + " stats");
  // These sums contain terms that are computed from rounded results, so the error bound is larger.
  if (c.drpe_batches)
    drpe.expect_near(want.drpe, element == Element::f32 ? real_error * 10 : 2 * error,
                     what + " drpe");
}

Run either(int i) { return i % 2 ? Run::backwards : Run::forwards; }

// Fails if a forward or backward result differs from the reference implementation. Detects skipped
// or repeated blocks, wrong heads, misplaced dropout, missing barriers and insufficient shared
// memory.
TEST(AttentionBlocks, AgreeWithPlainLoops) {
  Random random(171);
  for (int i = 0; i < 60; ++i) {
    const auto element = static_cast<Element>(i % 3);
    Case c = random_case(random, element);
    const std::string what = "case " + std::to_string(i) + " of element " + std::to_string(i % 3);
    const double error = element == Element::f32 ? 3e-5 : element == Element::fp16 ? 3e-3 : 2.4e-2;
    with_device_type(element,
                     [&](auto t) { compare<decltype(t), float>(c, either(i), error, what); });
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Fails if the threads of a block diverge before a barrier. With the thread sanitizer, also fails
// if threads read shared memory while other threads write it.
TEST(AttentionBlocks, ThreadsRunConcurrently) {
  Random random(174);
  int done = 0;
  while (done < 4) {
    Case c = random_case(random, done % 2 ? Element::bf16 : Element::f32);
    if (c.length < 17 || c.length > 64 || c.has_layout != (done < 2)) continue;
    ++done;
    const double error = c.q.element() == Element::f32 ? 3e-5 : 2.4e-2;
    with_device_type(c.q.element(), [&](auto t) {
      compare<decltype(t), float>(c, Run::threads, error, "threads, case " + std::to_string(done));
    });
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Fails if doubles lose precision through conversion to float.
TEST(AttentionBlocks, DoublesKeepTheirPrecision) {
  Random random(172);
  for (int i = 0; i < 8; ++i) {
    Case c = random_case(random, Element::f32);
    compare<double, double>(c, either(i), 1e-12, "case " + std::to_string(i));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Fails if a row of the layout is read incorrectly because the row has more blocks than a thread
// block has threads.
TEST(AttentionBlocks, LongLayoutsAreReadInChunks) {
  Random random(173);
  Case c = random_case(random, Element::f32);
  const std::int64_t blocks = attention_lanes + 40;
  const auto array = [&] {
    Array out(Element::f32, blocks * 16 * 16, 0);
    for (std::int64_t i = 0; i < out.size(); ++i) out.set(i, random.between(-1, 1));
    return out;
  };
  c = Case{1,       1,       blocks * 16, 16,      16, 0.25, true, false, {},
           array(), array(), array(),     array(), {}, {},   0,    0};
  for (std::int64_t i = 0; i < blocks * blocks; ++i)
    c.layout.push_back(random.once_in(60) || i % blocks == blocks - 1 ? 1 : 0);
  compare<float, float>(c, Run::backwards, 3e-5, "long");
}

/// The plan for a head dimension, a length and a layout's block size.
AttentionPlan plan_of(int dim, std::int64_t length, int block, AttentionStep step) {
  static const unsigned char any = 1;
  AttentionLaunch<float> launch{};
  launch.batch = launch.heads = 1;
  launch.dim = dim;
  launch.length = length;
  launch.block = block;
  launch.layout = block ? &any : nullptr;
  return plan_attention<DeviceBf16>(step, launch);
}

// Fails if a tile does not fit into shared memory, does not evenly divide a layout block, or is
// smaller than necessary.
TEST(AttentionBlocks, TilesAreAsLargeAsPossible) {
  for (const AttentionStep step : {AttentionStep::forward, AttentionStep::queries,
                                   AttentionStep::keys, AttentionStep::positions})
    for (const int dim : {0, 1, 64, 80, 128, 256})
      for (const int block : {0, 16, 48, 64, 80, 128}) {
        const AttentionPlan plan = plan_of(dim, block ? block * 9L : 1000, block, step);
        EXPECT_LE(plan.bytes, attention_most_bytes) << dim << " " << block;
        if (block) {
          EXPECT_EQ(block % plan.own, 0) << block;
        }
      }
  EXPECT_EQ(plan_of(64, 1000, 0, AttentionStep::forward).own, 64);
  EXPECT_EQ(plan_of(64, 1000, 0, AttentionStep::forward).other, 64);
  EXPECT_EQ(plan_of(64, 960, 48, AttentionStep::forward).own, 16);
  EXPECT_EQ(plan_of(64, 960, 48, AttentionStep::forward).other, 64);
  EXPECT_EQ(plan_of(64, 20, 0, AttentionStep::forward).own, 32);
  EXPECT_EQ(plan_of(64, 1000, 0, AttentionStep::forward).tasks, 16);
}

}  // namespace
