// The pieces of a decoder's pass on CUDA, run by the host as inference_cuda_launches.cpp says, against plain loops in double.
#include "ops/support/inference/cuda/attention.h"
#include "ops/support/inference/integers.h"
#include "unit/ops/device_elements.h"
#include "unit/ops/inference_cuda_launches.h"
#include "unit/ops/matrix_case.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

using MatrixFormat = anyaccel::ops::Format;
constexpr double infinity = std::numeric_limits<double>::infinity();

Values values_of(Array& array) { return {array.data(), array.element()}; }

Array drawn(Random& random, Element element, std::int64_t size, double low = -1.5, double high = 1.5) {
  Array out(element, size, random.offset());
  for (std::int64_t i = 0; i < size; ++i) out.set(i, random.between(low, high));
  return out;
}

std::vector<float> floats(Random& random, std::int64_t size) {
  std::vector<float> out(static_cast<std::size_t>(size));
  for (float& value : out) value = static_cast<float>(random.between(-1.5, 1.5));
  return out;
}

Products products_of(const Matrix& m, const float* x, std::int64_t rows, float* to) {
  return {m.format, m.inputs, m.group, 1, {{m.weight, m.scales, m.zeros, {}, m.outputs}}, x, rows, to, m.outputs};
}

struct Shape {
  std::int64_t outputs, inputs, group;
};

// Broken by a format that is read otherwise than it is meant, a chunk of inputs that is left out or read beyond a row's end, an output of
// another tile, and by sums that depend on the number of rows, on where the matrix lies, or on the order of threads.
TEST(InferenceCuda, Products) {
  Random random(11);
  struct Kind {
    MatrixFormat format;
    bool zeros;
    std::vector<Shape> shapes;
  };
  const std::vector<Shape> plain = {{1, 1, 0},    {3, 7, 0},    {5, 24, 0}, {9, 70, 0},
                                    {6, 1024, 0}, {7, 2056, 0}, {0, 8, 0}};
  const std::vector<Shape> groups = {{1, 32, 32},   {5, 96, 32},    {3, 128, 64},
                                     {9, 1152, 64}, {6, 2304, 128}, {2, 192, 192}};
  for (const Kind& kind : {Kind{MatrixFormat::f32, false, plain}, Kind{MatrixFormat::bf16, false, plain},
                           Kind{MatrixFormat::fp16, false, plain}, Kind{MatrixFormat::int8, false, groups},
                           Kind{MatrixFormat::int4, false, groups}, Kind{MatrixFormat::int4, true, groups}})
    for (const Shape& shape : kind.shapes)
      for (const std::int64_t rows : {1, 2, 3, 8, 16}) {
        MatrixCase given(kind.format, shape.outputs, shape.inputs, shape.group, kind.zeros, rows);
        std::vector<float> to(static_cast<std::size_t>(rows * shape.outputs + 1), 7);
        launches_backwards = rows % 2 == 0;
        cuda_products(products_of(given.matrix, given.x.data(), rows, to.data()), nullptr);
        EXPECT_EQ(to.back(), 7);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t o = 0; o < shape.outputs; ++o)
            ASSERT_NEAR(to[static_cast<std::size_t>(r * shape.outputs + o)], given.sum(r, o), given.bound(r, o))
                << static_cast<int>(kind.format) << " " << shape.outputs << " x " << shape.inputs << " row " << r;
        // Each row alone, with the weights at an odd address: the kernel that takes no vectors.
        std::vector<std::uint8_t> moved(given.weight.size() + 1);
        std::copy(given.weight.begin(), given.weight.end(), moved.begin() + 1);
        Matrix odd = given.matrix;
        if (shape.group) odd.weight = moved.data() + 1;
        launches_backwards = !launches_backwards;
        for (std::int64_t r = 0; r < rows; ++r) {
          std::vector<float> alone(static_cast<std::size_t>(shape.outputs));
          cuda_products(products_of(odd, given.x.data() + r * shape.inputs, 1, alone.data()), nullptr);
          for (std::int64_t o = 0; o < shape.outputs; ++o)
            ASSERT_EQ(alone[static_cast<std::size_t>(o)], to[static_cast<std::size_t>(r * shape.outputs + o)]);
        }
      }
}

// Broken when a part's outputs go into another's place, or its bias is another's or another element's.
TEST(InferenceCuda, ProductsOfParts) {
  Random random(12);
  constexpr std::int64_t rows = 3, inputs = 40, counts[] = {5, 1, 8}, all = 14;
  std::vector<MatrixCase> parts;
  for (const std::int64_t outputs : counts) parts.emplace_back(MatrixFormat::bf16, outputs, inputs, 0, false, rows);
  Array bias = drawn(random, Element::fp16, 5), other = drawn(random, Element::f32, 8);
  std::vector<float> to(rows * all);
  Products launch{MatrixFormat::bf16, inputs, 0, 3, {}, parts[0].x.data(), rows, to.data(), all};
  const Values biases[] = {values_of(bias), {}, values_of(other)};
  for (std::size_t p = 0; p < 3; ++p)
    launch.part[p] = {parts[p].matrix.weight, nullptr, nullptr, biases[p], parts[p].matrix.outputs};
  cuda_products(launch, nullptr);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < all; ++o) {
      const std::size_t p = o < 5 ? 0 : o < 6 ? 1 : 2;
      const std::int64_t output = o - (p == 0 ? 0 : p == 1 ? 5 : 6);
      double want = p == 0 ? bias.get(output) : p == 2 ? other.get(output) : 0;
      for (std::int64_t i = 0; i < inputs; ++i)
        want += double{parts[0].x[static_cast<std::size_t>(r * inputs + i)]} *
                parts[p].values[static_cast<std::size_t>(output * inputs + i)];
      EXPECT_NEAR(to[static_cast<std::size_t>(r * all + o)], want, 1e-3) << r << " " << o;
    }
}

std::vector<double> plain_norm(const Norm& norm, Array& weight, Array& bias, const std::vector<double>& x) {
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

// Broken by a kind of norm that is another one, a change that is added twice or not kept, a row that is another's, and by columns behind the
// last whole stretch of threads.
TEST(InferenceCuda, NormsOfSums) {
  Random random(13);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t columns = random.once_in(3) ? random.whole(1, 1500) : random.whole(1, 70);
    const std::int64_t all = random.whole(1, 6), rows = random.whole(1, all);
    launches_backwards = random.once_in(2);
    std::vector<float> x = floats(random, all * columns), change = floats(random, all * columns);
    std::vector<float> to(static_cast<std::size_t>(rows * columns));
    Array weight = drawn(random, random.element(), columns), bias = drawn(random, random.element(), columns);
    NormRows launch{};
    const auto norm = [&] {
      return Norm{static_cast<NormKind>(random.whole(0, 2)), random.once_in(3) ? Values{} : values_of(weight),
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
      const std::vector<double> want = launch.normed ? plain_norm(launch.norm, weight, bias, sum) : sum;
      for (std::int64_t k = 0; k < columns; ++k) {
        ASSERT_NEAR(x[static_cast<std::size_t>(launch.from[row] * columns + k)], sum[static_cast<std::size_t>(k)],
                    2e-5);
        // A single value's layer norm is the rounding of its mean, enlarged.
        if (only_sum || columns <= 2) continue;
        ASSERT_NEAR(to[static_cast<std::size_t>(row * columns + k)], want[static_cast<std::size_t>(k)], 2e-4);
      }
    }
  }
}

// Broken by pairs of the other layout, angles of another row, values behind the turned part, a head in another's place of the cache.
TEST(InferenceCuda, PositionsOfHeads) {
  Random random(14);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t rows = random.whole(1, 5), kv_heads = random.whole(1, 3), heads = kv_heads * random.whole(1, 3);
    const std::int64_t dim = random.whole(1, 140), half = random.whole(0, dim / 2), capacity = random.whole(rows, 9);
    const std::int64_t all = heads + 2 * kv_heads;
    launches_backwards = random.once_in(2);
    std::vector<float> qkv = floats(random, rows * all * dim);
    const std::vector<float> before = qkv, cos = floats(random, rows * half + 1), sin = floats(random, rows * half + 1);
    const Element type = random.element();
    Array weight = drawn(random, random.element(), dim), none(Element::f32, 0, 0);
    Array keys(type, kv_heads * capacity * dim, random.offset()),
        values(type, kv_heads * capacity * dim, random.offset());
    for (Array* cache : {&keys, &values})
      for (std::int64_t k = 0; k < cache->size(); ++k) cache->set(k, 9);
    const Norm norm{NormKind::rms, values_of(weight), {}, 1e-5F};
    PositionHeads launch{qkv.data(),        rows,       heads,      kv_heads, dim, random.once_in(2), norm, norm, half,
                         random.once_in(2), cos.data(), sin.data(), {}};
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
          const std::int64_t place = (((head - heads) % kv_heads) * capacity + capacity - 1 - row) * dim + k;
          const double got = query ? double{qkv[begin + static_cast<std::size_t>(k)]} : cache.get(place);
          const double wanted = want[static_cast<std::size_t>(k)];
          ASSERT_NEAR(got, wanted, 1e-4 + (query ? 0 : spacing(wanted, type))) << row << " " << head << " " << k;
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
    case Gate::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Gate::relu: break;
  }
  return std::isnan(x) ? x : std::max(0.0, x);
}

// Broken by an activation that is another one, a bias that is left out, and by the second half of a row that is another's.
TEST(InferenceCuda, Gates) {
  Random random(15);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t rows = random.whole(0, 4), columns = random.whole(0, 600);
    const bool gated = random.once_in(2);
    const std::int64_t row = columns * (gated ? 2 : 1);
    std::vector<float> from = floats(random, rows * row), to(static_cast<std::size_t>(rows * columns) + 1, 7);
    for (float& value : from) value *= random.once_in(20) ? 40.0F : 3.0F;
    Array bias = drawn(random, random.element(), columns), up = drawn(random, random.element(), columns);
    const GateRows launch{from.data(),
                          row,
                          random.once_in(2) ? Values{} : values_of(bias),
                          random.once_in(2) ? Values{} : values_of(up),
                          gated,
                          static_cast<Gate>(random.whole(0, 3)),
                          to.data(),
                          rows,
                          columns};
    cuda_gate_rows(launch, nullptr);
    EXPECT_EQ(to.back(), 7);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < columns; ++k) {
        double want =
            plain_gate(launch.gate, from[static_cast<std::size_t>(r * row + k)] + (launch.bias.data ? bias.get(k) : 0));
        if (gated)
          want *= from[static_cast<std::size_t>(r * row + columns + k)] + (launch.up_bias.data ? up.get(k) : 0);
        ASSERT_NEAR(to[static_cast<std::size_t>(r * columns + k)], want, 2e-5 * (1 + std::abs(want)));
      }
  }
}

/// Rows that look at caches of their own.
struct Attention {
  AttendCache launch{};
  std::vector<float> queries, mask, to, partial;
  std::vector<Array> keys, values;

  void run() {
    const std::int64_t end = launch.mask_row;
    partial.assign(static_cast<std::size_t>(attend_floats(launch.rows, launch.heads, launch.dim, end)), std::nanf(""));
    to.assign(static_cast<std::size_t>(launch.rows * launch.heads * launch.dim), 7);
    launch.partial = partial.data();
    launch.to = to.data();
    cuda_attend_cache(launch, nullptr);
  }

  std::vector<double> want(std::int64_t row, std::int64_t head) {
    const RowPlace& place = launch.places[row];
    const std::int64_t end = place.position + 1, dim = launch.dim, kv_head = (launch.first_head + head) / launch.group;
    std::vector<double> out(static_cast<std::size_t>(dim));
    double sum = 0;
    std::vector<double> scores;
    for (std::int64_t p = 0; p < end; ++p) {
      double score = 0;
      for (std::int64_t d = 0; d < dim; ++d)
        score += double{queries[static_cast<std::size_t>(row * launch.queries_row + head * dim + d)]} *
                 keys[static_cast<std::size_t>(row)].get((kv_head * place.capacity + p) * dim + d);
      score *= launch.scale;
      if (launch.softcap > 0) score = launch.softcap * std::tanh(score / launch.softcap);
      if (launch.mask) score += mask[static_cast<std::size_t>(row * launch.mask_row + p)];
      if (launch.window > 0 && p < end - launch.window) score = -infinity;
      scores.push_back(score);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    if (most == -infinity) return out;
    for (std::int64_t p = 0; p < end; ++p) {
      const double share = std::exp(scores[static_cast<std::size_t>(p)] - most);
      sum += share;
      for (std::int64_t d = 0; d < dim; ++d)
        out[static_cast<std::size_t>(d)] +=
            share * values[static_cast<std::size_t>(row)].get((kv_head * place.capacity + p) * dim + d);
    }
    for (double& value : out) value /= sum;
    return out;
  }
};

Attention random_attention(Random& random, std::int64_t longest) {
  Attention out;
  AttendCache& c = out.launch;
  c.rows = random.whole(1, 3);
  c.kv_heads = random.whole(1, 3);
  c.group = random.once_in(3) ? random.whole(5, 11) : random.whole(1, 4);
  // As of a rank that has some of the heads: the first and the last key may have less than a group.
  const bool cut = random.once_in(2);
  c.first_head = cut && c.kv_heads > 1 ? random.whole(0, c.group - 1) : 0;
  c.heads = c.kv_heads * c.group - c.first_head - (cut ? random.whole(0, c.group - 1) : 0);
  c.dim = random.once_in(2) ? 16 * random.whole(1, 4) : random.whole(1, 90);
  c.queries_row = (c.heads + 3) * c.dim;
  c.scale = 1 / std::sqrt(static_cast<float>(c.dim));
  c.softcap = random.once_in(3) ? 2.0F : 0.0F;
  c.window = random.once_in(3) ? random.whole(1, longest) : 0;
  c.type = random.element();
  c.mask_row = longest;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t position = random.whole(0, longest - 1), capacity = position + random.whole(1, 5);
    out.keys.push_back(drawn(random, c.type, c.kv_heads * capacity * c.dim));
    out.values.push_back(drawn(random, c.type, c.kv_heads * capacity * c.dim));
    c.places[row] = {values_of(out.keys.back()), values_of(out.values.back()), position, capacity};
  }
  out.queries = floats(random, c.rows * c.queries_row);
  c.queries = out.queries.data();
  if (!random.once_in(3)) return out;
  const double hidden = random.once_in(2) ? 1.0 : random.between(0, 1);
  for (std::int64_t i = 0; i < c.rows * longest; ++i)
    out.mask.push_back(random.between(0, 1) < hidden ? -HUGE_VALF : static_cast<float>(random.between(-2, 2)));
  c.mask = out.mask.data();
  return out;
}

// Broken by a head that reads another's keys, a window or chunk that is one off, chunks that are put together with wrong weights, rows that
// see nothing and give NaN, what lies behind a row's position, and by a row whose bits depend on the rows beside it.
TEST(InferenceCuda, AttentionOverCaches) {
  Random random(16);
  for (int i = 0; i < 60; ++i) {
    Attention given = random_attention(random, i % 10 == 0 ? 1500 : i % 10 == 1 ? 400 : 90);
    launches_backwards = random.once_in(2);
    given.run();
    const AttendCache& c = given.launch;
    const std::vector<float> together = given.to;
    for (std::int64_t row = 0; row < c.rows; ++row)
      for (std::int64_t head = 0; head < c.heads; ++head) {
        const std::vector<double> want = given.want(row, head);
        for (std::int64_t d = 0; d < c.dim; ++d)
          ASSERT_NEAR(together[static_cast<std::size_t>((row * c.heads + head) * c.dim + d)],
                      want[static_cast<std::size_t>(d)], 2e-5)
              << i << ": " << row << " " << head << " " << d;
      }
    launches_backwards = !launches_backwards;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      Attention alone = given;
      alone.launch.rows = 1;
      alone.launch.places[0] = given.launch.places[row];
      alone.launch.queries = given.queries.data() + row * c.queries_row;
      if (c.mask) alone.launch.mask = given.mask.data() + row * c.mask_row;
      alone.run();
      for (std::size_t k = 0; k < alone.to.size(); ++k)
        ASSERT_EQ(alone.to[k], together[static_cast<std::size_t>(row * c.heads * c.dim) + k]);
    }
  }
}

// Broken when long sequences have more chunks than there is room for, or positions that no chunk has.
TEST(InferenceCuda, ChunksOfLongSequences) {
  for (const std::int64_t end : {1, 256, 257, 16384, 16385, 16640, 131071, 1 << 20}) {
    const std::int64_t chunks = chunks_of({0, end});
    EXPECT_LE(chunks, most_chunks);
    EXPECT_GE(chunks * attend_chunk(end), end);
    EXPECT_LT((chunks - 1) * attend_chunk(end), end);
    EXPECT_GE(attend_floats(2, 3, 1, end), chunks < 2 ? 0 : 6 * chunks * 3);
    EXPECT_LE(chunks_of({end - 1, end}), 1);
  }
}

// Broken when a matrix becomes other integers than the CPU makes of it, or these other floats.
TEST(InferenceCuda, IntegersAreTheCpus) {
  Random random(17);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t group = 32 * random.whole(1, 5), inputs = group * random.whole(1, 3),
                       outputs = random.whole(0, 4);
    const int bits = random.once_in(2) ? 8 : 4;
    Array from = drawn(random, random.element(), outputs * inputs);
    // Far ones are rare, so that cutting them off pays.
    for (std::int64_t k = 0; k < from.size(); ++k) from.set(k, std::pow(from.get(k), 3));
    if (random.once_in(3))
      for (std::int64_t k = 0; k < std::min(group, from.size()); ++k) from.set(k, 0);
    std::vector<float> scales(static_cast<std::size_t>(outputs * inputs / group)),
        wanted_scales = scales, scratch(static_cast<std::size_t>(inputs));
    Bytes<std::int8_t> made(outputs * inputs * bits / 8, 0), wanted(outputs * inputs * bits / 8, 0);
    launches_backwards = random.once_in(2);
    cuda_quantize_matrix({from.data(), from.element(), bits, outputs, inputs, group, made.data(), scales.data()},
                         nullptr);
    for (std::int64_t row = 0; row < outputs; ++row)
      quantize_row(Isa::scalar, bits, group, from.element(),
                   static_cast<char*>(from.data()) + row * inputs * size_of(from.element()), inputs,
                   wanted.data() + row * inputs * bits / 8, wanted_scales.data() + row * (inputs / group),
                   scratch.data());
    EXPECT_EQ(scales, wanted_scales);
    EXPECT_EQ(made.values(), wanted.values());
    EXPECT_TRUE(made.guards_whole());
    std::vector<std::uint8_t> zeros(scales.size());
    for (std::uint8_t& zero : zeros) zero = static_cast<std::uint8_t>(random.whole(0, 15));
    const Matrix m{
        bits == 8 ? MatrixFormat::int8 : MatrixFormat::int4,    outputs, inputs, group, made.data(), scales.data(),
        bits == 4 && random.once_in(2) ? zeros.data() : nullptr};
    const std::int64_t begin = random.whole(0, outputs);
    Array ours(random.element(), (outputs - begin) * inputs, 0), theirs(ours.element(), ours.size(), 0);
    cuda_widen_matrix({m, begin, outputs - begin, ours.element(), ours.data()}, nullptr);
    widen_rows(Isa::scalar, m, begin, outputs, theirs.element(), theirs.data());
    expect_same(ours, theirs, "widened");
  }
}

// Broken when equal scores choose the last expert, shares are not those of the softmax, or pairs are not in the experts' order.
TEST(InferenceCuda, ChosenExperts) {
  const float logits[] = {1, 3, 3, -2, /**/ 0, 0, 0, 5};
  Chosen chosen[4];
  cuda_choose_experts({logits, 2, 4, 2, true, chosen}, nullptr);
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_EQ(chosen[1].expert, 2);
  EXPECT_EQ(chosen[2].expert, 0);
  EXPECT_EQ(chosen[3].expert, 3);
  EXPECT_FLOAT_EQ(chosen[0].share, 0.5F);
  EXPECT_NEAR(chosen[3].share, 1 / (1 + std::exp(-5.0)), 1e-6);
  cuda_choose_experts({logits, 1, 4, 1, false, chosen}, nullptr);
  EXPECT_NEAR(chosen[0].share, std::exp(3.0) / (std::exp(1.0) + 2 * std::exp(3.0) + std::exp(-2.0)), 1e-6);
}

}  // namespace
