// Runs the thread blocks of the transformer layer's row-wise CUDA kernels on the host and compares
// the results with those of the CPU kernels in double precision.
#include <memory>

#include "unit/kernels/host_rows.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

template <typename T>
constexpr double error_of = std::is_same_v<T, double>       ? 1e-12
                            : std::is_same_v<T, DeviceBf16> ? 8.1e-3
                            : std::is_same_v<T, DeviceFp16> ? 1.1e-3
                                                            : 2e-5;

/// Numbers with an optional offset from 16-byte alignment, followed by guard elements.
template <typename T>
struct Numbers {
  std::int64_t size;
  std::size_t offset;
  std::unique_ptr<char, decltype(&std::free)> memory;

  Numbers(std::int64_t count, std::size_t shift)
      : size(count),
        offset(shift),
        memory(static_cast<char*>(std::aligned_alloc(
                   16, (static_cast<std::size_t>(count) + shift + 32) * sizeof(T) / 16 * 16 + 16)),
               &std::free) {
    for (std::int64_t i = 0; i < count + 8; ++i)
      data()[i] = static_cast<T>(static_cast<typename RealOf<T>::type>(77));
  }
  Numbers(const std::vector<double>& from, std::size_t shift)
      : Numbers(static_cast<std::int64_t>(from.size()), shift) {
    for (std::size_t i = 0; i < from.size(); ++i)
      data()[i] = static_cast<T>(static_cast<typename RealOf<T>::type>(from[i]));
  }
  T* data() { return reinterpret_cast<T*>(memory.get()) + offset; }
  double at(std::int64_t i) const {
    return static_cast<double>(static_cast<typename RealOf<T>::type>(
        (reinterpret_cast<const T*>(memory.get()) + offset)[i]));
  }
  void expect_near(const std::vector<double>& want, double error, const std::string& what) const {
    ASSERT_EQ(static_cast<std::size_t>(size), want.size()) << what;
    for (std::int64_t i = 0; i < size; ++i) {
      const double right = want[static_cast<std::size_t>(i)];
      ASSERT_NEAR(at(i), right, error * (1 + std::abs(right))) << what << " " << i;
    }
    for (std::int64_t i = size; i < size + 8; ++i) ASSERT_EQ(at(i), 77) << what << " past the end";
  }
};

/// Numbers that every type represents exactly, so that all types get the same input.
std::vector<double> random_numbers(Random& random, std::int64_t count, double least = -2,
                                   double most = 2) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(rounded(rounded(random.between(least, most), Element::bf16), Element::fp16));
  return out;
}

std::vector<double> zeros(std::int64_t count) {
  return std::vector<double>(static_cast<std::size_t>(count));
}

struct Case {
  std::int64_t rows, columns;
  bool tanh, inverted, has_norm, has_product, has_plus, in_place;
  std::size_t offset;
  Dropout dropout;
  std::vector<double> product, bias, residual, weight, shift, grad, plus, arguments, stats;
};

Case random_case(Random& random) {
  Case c{};
  c.rows = random.once_in(8) ? 0 : random.once_in(4) ? random.whole(500, 700) : random.whole(1, 20);
  c.columns = c.rows < 30 && random.once_in(4) ? random.whole(1000, 4200)
                                               : random.whole(1, random.once_in(2) ? 20 : 300);
  if (random.once_in(2)) c.columns = (c.columns + 7) / 8 * 8;
  c.tanh = random.once_in(2);
  c.inverted = random.once_in(2);
  c.has_norm = !random.once_in(4);
  c.has_product = !random.once_in(4);
  c.has_plus = random.once_in(2);
  c.in_place = random.once_in(2);
  c.offset = random.once_in(2) ? 0 : random.offset();
  if (random.once_in(2))
    c.dropout = {static_cast<std::uint64_t>(random.whole(0, 1 << 30)), 0x40000000U, 4.0 / 3};
  const std::int64_t size = c.rows * c.columns;
  for (auto* numbers : {&c.product, &c.residual, &c.grad, &c.plus, &c.arguments})
    *numbers = random_numbers(random, size);
  for (auto* numbers : {&c.bias, &c.shift}) *numbers = random_numbers(random, c.columns);
  c.weight = random_numbers(random, c.columns, 0.5, 2);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    c.stats.push_back(0.25);
    c.stats.push_back(1.5);
  }
  return c;
}

/// Runs the device code of all row-wise kernels and compares the results with those of the CPU
/// kernels.
template <typename T>
void compare(Case& c, bool backwards, const std::string& what) {
  using Real = typename RealOf<T>::type;
  constexpr double error = error_of<T>, sum_error = std::is_same_v<Real, double> ? 1e-11 : 1e-4;
  const std::int64_t size = c.rows * c.columns;
  const auto own = [&](const std::vector<double>& from) { return Numbers<T>(from, c.offset); };
  const auto fresh = [&](std::int64_t count) { return Numbers<T>(count, c.offset); };
  Numbers<T> product = own(c.product), bias = own(c.bias), residual = own(c.residual),
             weight = own(c.weight), shift = own(c.shift);
  Numbers<T> grad = own(c.grad), plus = own(c.plus), arguments = own(c.arguments);
  std::vector<double> scratch = zeros(c.columns + 16);

  {
    Numbers<T> sum = fresh(size), out = fresh(size);
    Numbers<Real> stats(2 * c.rows, 0);
    run_add_norm(
        AddNorm<T>{c.columns, c.has_product ? product.data() : nullptr, bias.data(),
                   residual.data(), sum.data(), c.has_norm ? out.data() : nullptr, weight.data(),
                   shift.data(), static_cast<Real>(1e-3), stats.data(), c.dropout},
        c.rows, backwards);
    std::vector<double> want_sum = zeros(size), want = zeros(size), want_stats = zeros(2 * c.rows);
    add_norm(Isa::scalar,
             AddNorm<double>{c.columns, c.has_product ? c.product.data() : nullptr, c.bias.data(),
                             c.residual.data(), want_sum.data(), want.data(), c.weight.data(),
                             c.shift.data(), 1e-3, want_stats.data(), c.dropout},
             0, c.rows, scratch.data());
    sum.expect_near(want_sum, error, what + " sum");
    if (c.has_norm) {
      out.expect_near(want, 3 * error, what + " norm");
      stats.expect_near(want_stats, sum_error, what + " stats");
    }
  }
  {
    Numbers<T> grad_sum = fresh(size), grad_product = fresh(size),
               totals[3] = {fresh(c.columns), fresh(c.columns), fresh(c.columns)};
    Numbers<Real> stats(c.stats, 0), parts(norm_parts(c.rows).count * 3 * c.columns, 0);
    run_norm_grad(
        NormGrad<T>{c.columns, grad.data(), c.inverted ? nullptr : arguments.data(),
                    c.inverted ? arguments.data() : nullptr, c.has_norm ? weight.data() : nullptr,
                    shift.data(), stats.data(), c.has_plus ? plus.data() : nullptr, grad_sum.data(),
                    grad_product.data(), c.dropout},
        c.rows, parts.data(), backwards);
    run_sum_parts(PartSums<T>{norm_parts(c.rows).count,
                              c.columns,
                              3,
                              parts.data(),
                              {totals[0].data(), totals[1].data(), totals[2].data()}},
                  backwards);
    std::vector<double> want_sum = zeros(size), want_product = zeros(size),
                        sums = zeros(3 * c.columns);
    norm_grad(Isa::scalar,
              NormGrad<double>{c.columns, c.grad.data(), c.inverted ? nullptr : c.arguments.data(),
                               c.inverted ? c.arguments.data() : nullptr,
                               c.has_norm ? c.weight.data() : nullptr, c.shift.data(),
                               c.stats.data(), c.has_plus ? c.plus.data() : nullptr,
                               want_sum.data(), want_product.data(), c.dropout},
              0, c.rows, sums.data(), scratch.data());
    grad_sum.expect_near(want_sum, error, what + " grad_sum");
    grad_product.expect_near(want_product, error, what + " grad_product");
    for (int which = 0; which < 3; ++which)
      totals[which].expect_near(
          {sums.begin() + which * c.columns, sums.begin() + (which + 1) * c.columns},
          error + sum_error, what + " norm's sums");
  }
  {
    Numbers<T> from = own(c.arguments), to = fresh(size), change = own(c.grad),
               total = fresh(c.columns), plain_total = fresh(c.columns);
    Numbers<Real> parts(column_parts(c.rows).count * c.columns, 0),
        plain_parts(column_parts(c.rows).count * c.columns, 0);
    const Gelu<T> pass{c.columns, from.data(), bias.data(), c.in_place ? from.data() : to.data(),
                       c.tanh};
    run_gelu_grad(pass, change.data(), c.rows, parts.data());
    run_gelu(pass, c.rows);
    run_sum_parts(
        PartSums<T>{column_parts(c.rows).count, c.columns, 1, parts.data(), {total.data()}},
        backwards);
    run_column_sums(grad.data(), c.columns, c.rows, plain_parts.data());
    run_sum_parts(
        PartSums<T>{
            column_parts(c.rows).count, c.columns, 1, plain_parts.data(), {plain_total.data()}},
        backwards);
    std::vector<double> want = zeros(size), want_change = c.grad, sums = zeros(c.columns),
                        plain_sums = zeros(c.columns);
    const Gelu<double> exact{c.columns, c.arguments.data(), c.bias.data(), want.data(), c.tanh};
    gelu(Isa::scalar, exact, 0, c.rows);
    gelu_grad(Isa::scalar, exact, want_change.data(), 0, c.rows, sums.data());
    column_sums(Isa::scalar, c.grad.data(), c.columns, 0, c.rows, plain_sums.data());
    (c.in_place ? from : to).expect_near(want, error, what + " gelu");
    change.expect_near(want_change, error, what + " gelu's gradient");
    total.expect_near(sums, error + sum_error, what + " gelu's sums");
    plain_total.expect_near(plain_sums, error + sum_error, what + " column sums");
  }
}

// Fails if a result differs from that of the CPU kernels. Detects skipped or repeated rows,
// misplaced dropout, missing barriers, wrong sums and insufficient shared memory.
TEST(RowsBlocks, AgreeWithHostKernels) {
  Random random(181);
  for (int i = 0; i < 60; ++i) {
    Case c = random_case(random);
    const std::string what = "case " + std::to_string(i) + ": " + std::to_string(c.rows) + " x " +
                             std::to_string(c.columns);
    switch (i % 4) {
      case 0: compare<float>(c, i % 8 < 4, what); break;
      case 1: compare<DeviceBf16>(c, i % 8 < 4, what); break;
      case 2: compare<DeviceFp16>(c, i % 8 < 4, what); break;
      default: compare<double>(c, i % 8 < 4, what);
    }
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
