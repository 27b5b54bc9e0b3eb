// Runs the row-wise kernels of a CUDA decoder pass, which run between its matrix products, on the
// host. Compares the results with a reference implementation in double precision.
#include "unit/kernels/decoder_cuda_case.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

std::vector<double> plain_norm(const Norm& norm, Array& weight, Array& bias,
                               const std::vector<double>& x) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, squares = 0;
  if (norm.kind == NormKind::layer)
    for (const double value : x) mean += value / count;
  for (const double value : x) squares += (value - mean) * (value - mean) / count;
  std::vector<double> out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    double value = (x[i] - mean) / std::sqrt(squares + norm.eps);
    if (norm.weight.data) value *= weight.get(at) + (norm.kind == NormKind::rms_plus_one ? 1 : 0);
    out.push_back(value + (norm.bias.data ? bias.get(at) : 0));
  }
  return out;
}

// Fails if the wrong kind of norm is used, the wrong row is read, or a residual update is lost or
// added twice. The widths include some that are not multiples of the number of threads.
TEST(InferenceCuda, NormsOfSums) {
  Random random(13);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t columns = random.once_in(3) ? random.whole(1, 1500) : random.whole(1, 70);
    const std::int64_t all = random.whole(1, 6), rows = random.whole(1, all);
    launches_backwards = random.once_in(2);
    std::vector<float> x = floats(random, all * columns), change = floats(random, all * columns);
    std::vector<float> to(static_cast<std::size_t>(rows * columns));
    Array weight = drawn(random, random.element(), columns),
          bias = drawn(random, random.element(), columns);
    NormRows launch{};
    const auto norm = [&] {
      return Norm{static_cast<NormKind>(random.whole(0, 2)),
                  random.once_in(3) ? Values{} : values_of(weight),
                  random.once_in(2) ? Values{} : values_of(bias), 1e-5F};
    };
    launch = {x.data(),
              random.once_in(3) ? nullptr : change.data(),
              random.once_in(2),
              norm(),
              to.data(),
              !random.once_in(5),
              norm(),
              rows,
              columns,
              {}};
    std::vector<std::vector<double>> sums;
    for (std::int64_t row = 0; row < rows; ++row) {
      launch.from[row] = static_cast<std::int32_t>(all - 1 - row);
      const auto begin = static_cast<std::size_t>((all - 1 - row) * columns);
      std::vector<double> sum(x.begin() + static_cast<std::ptrdiff_t>(begin),
                              x.begin() + static_cast<std::ptrdiff_t>(begin) + columns);
      if (launch.change) {
        std::vector<double> more(change.begin() + static_cast<std::ptrdiff_t>(begin),
                                 change.begin() + static_cast<std::ptrdiff_t>(begin) + columns);
        if (launch.norms_change) more = plain_norm(launch.after, weight, bias, more);
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
      }
      sums.push_back(sum);
    }
    const bool only_sum = random.once_in(6);
    if (only_sum) launch.to = nullptr;
    cuda_norm_rows(launch, nullptr);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::vector<double>& sum = sums[static_cast<std::size_t>(row)];
      const std::vector<double> want =
          launch.normed ? plain_norm(launch.norm, weight, bias, sum) : sum;
      for (std::int64_t k = 0; k < columns; ++k) {
        ASSERT_NEAR(x[static_cast<std::size_t>(launch.from[row] * columns + k)],
                    sum[static_cast<std::size_t>(k)], 2e-5);
        // With so few columns, the layer norm can amplify the rounding error of the mean.
        if (only_sum || columns <= 2) continue;
        ASSERT_NEAR(to[static_cast<std::size_t>(row * columns + k)],
                    want[static_cast<std::size_t>(k)], 2e-4);
      }
    }
  }
}

// Fails if heads are rotated with the wrong pairing of elements or with the angles of another row,
// or are stored in the wrong place in the cache.
TEST(InferenceCuda, RotatesAndCachesHeads) {
  Random random(14);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t rows = random.whole(1, 5), kv_heads = random.whole(1, 3),
                       heads = kv_heads * random.whole(1, 3);
    const std::int64_t dim = random.whole(1, 140), half = random.whole(0, dim / 2),
                       capacity = random.whole(rows, 9);
    const std::int64_t all = heads + 2 * kv_heads;
    launches_backwards = random.once_in(2);
    std::vector<float> qkv = floats(random, rows * all * dim);
    const std::vector<float> before = qkv, cos = floats(random, rows * half + 1),
                             sin = floats(random, rows * half + 1);
    const Element type = random.element();
    Array weight = drawn(random, random.element(), dim), none(Element::f32, 0, 0);
    Array keys(type, kv_heads * capacity * dim, random.offset()),
        values(type, kv_heads * capacity * dim, random.offset());
    for (Array* cache : {&keys, &values})
      for (std::int64_t k = 0; k < cache->size(); ++k) cache->set(k, 9);
    const Norm norm{NormKind::rms, values_of(weight), {}, 1e-5F};
    PositionHeads launch{qkv.data(),        rows,       heads, kv_heads, dim,
                         random.once_in(2), norm,       norm,  half,     random.once_in(2),
                         cos.data(),        sin.data(), {}};
    for (std::int64_t row = 0; row < rows; ++row)
      launch.places[row] = {values_of(keys), values_of(values), capacity - 1 - row, capacity};
    cuda_position_heads(launch, nullptr);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t head = 0; head < all; ++head) {
        const bool value = head >= heads + kv_heads, query = head < heads;
        const auto begin = static_cast<std::size_t>((row * all + head) * dim);
        std::vector<double> want(before.begin() + static_cast<std::ptrdiff_t>(begin),
                                 before.begin() + static_cast<std::ptrdiff_t>(begin) + dim);
        if (launch.head_norms && !value) want = plain_norm(norm, weight, none, want);
        for (std::int64_t k = 0; !value && k < half; ++k) {
          const auto a = static_cast<std::size_t>(launch.interleaved ? 2 * k : k);
          const auto b = static_cast<std::size_t>(launch.interleaved ? 2 * k + 1 : k + half);
          const double c = cos[static_cast<std::size_t>(row * half + k)],
                       s = sin[static_cast<std::size_t>(row * half + k)];
          const double x = want[a], y = want[b];
          want[a] = x * c - y * s;
          want[b] = x * s + y * c;
        }
        Array& cache = value ? values : keys;
        for (std::int64_t k = 0; k < dim; ++k) {
          const std::int64_t place =
              (((head - heads) % kv_heads) * capacity + capacity - 1 - row) * dim + k;
          const double got =
              query ? double{qkv[begin + static_cast<std::size_t>(k)]} : cache.get(place);
          const double wanted = want[static_cast<std::size_t>(k)];
          ASSERT_NEAR(got, wanted, 1e-4 + (query ? 0 : spacing(wanted, type)))
              << row << " " << head << " " << k;
        }
      }
    for (std::int64_t k = 0; k < keys.size(); ++k)
      if (k / dim % capacity < capacity - rows) {
        ASSERT_EQ(keys.get(k), 9);
        ASSERT_EQ(values.get(k), 9);
      }
    EXPECT_TRUE(keys.guards_whole() && values.guards_whole());
  }
}

double plain_gate(Gate gate, double x) {
  switch (gate) {
    case Gate::silu: return x / (1 + std::exp(-x));
    case Gate::gelu: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Gate::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Gate::relu2: return std::isnan(x) ? x : std::max(0.0, x) * std::max(0.0, x);
    case Gate::relu: break;
  }
  return std::isnan(x) ? x : std::max(0.0, x);
}

// Fails if the wrong activation is used, a bias is skipped, or the gate and up halves come from
// different rows.
TEST(InferenceCuda, Gates) {
  Random random(15);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t rows = random.whole(0, 4), columns = random.whole(0, 600);
    const bool gated = random.once_in(2);
    const std::int64_t row = columns * (gated ? 2 : 1);
    std::vector<float> from = floats(random, rows * row),
                       to(static_cast<std::size_t>(rows * columns) + 1, 7);
    for (float& value : from) value *= random.once_in(20) ? 40.0F : 3.0F;
    Array bias = drawn(random, random.element(), columns),
          up = drawn(random, random.element(), columns);
    const GateRows launch{from.data(),
                          row,
                          random.once_in(2) ? Values{} : values_of(bias),
                          random.once_in(2) ? Values{} : values_of(up),
                          gated,
                          static_cast<Gate>(random.whole(0, 4)),
                          to.data(),
                          rows,
                          columns};
    cuda_gate_rows(launch, nullptr);
    EXPECT_EQ(to.back(), 7);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < columns; ++k) {
        double want = plain_gate(launch.gate, from[static_cast<std::size_t>(r * row + k)] +
                                                  (launch.bias.data ? bias.get(k) : 0));
        if (gated)
          want *= from[static_cast<std::size_t>(r * row + columns + k)] +
                  (launch.up_bias.data ? up.get(k) : 0);
        ASSERT_NEAR(to[static_cast<std::size_t>(r * columns + k)], want,
                    2e-5 * (1 + std::abs(want)));
      }
  }
}

}  // namespace
