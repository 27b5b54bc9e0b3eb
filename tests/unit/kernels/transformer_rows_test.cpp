// Compares the transformer layer's kernels for each instruction set with the double-precision
// kernels. Also compares the double-precision kernels with a plain-loop reference implementation.
#include "kernels/transformer/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/transformer/attention.h"
#include "unit/kernels/row_numbers.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

/// Runs all row-wise kernels on rows 1 to rows - 1.
template <typename S>
std::vector<Result> rows_of(Isa isa, std::int64_t columns, bool dropout, bool tanh, bool inverted) {
  using Real = typename RealOf<S>::type;
  constexpr std::int64_t rows = 5;
  const std::int64_t size = rows * columns;
  std::vector<Result> out;
  const auto scratch = aligned<Real>(columns + 16);
  Numbers<S> product(size, 1), bias(columns, 2), residual(size, 3), weight(columns, 4, 0.5, 2),
      shift(columns, 5);
  Numbers<S> sum(size), normal(size);
  Numbers<Real> stats(2 * rows);
  AddNorm<S> norm{columns,
                  product.data(),
                  bias.data(),
                  residual.data(),
                  sum.data(),
                  normal.data(),
                  weight.data(),
                  shift.data(),
                  static_cast<Real>(1e-3),
                  stats.data(),
                  {}};
  if (dropout) norm.dropout = {12345, 0x40000000U, 4.0 / 3};
  add_norm(isa, norm, 1, rows, scratch.get());
  keep(&out, "sum", sum, true);
  keep(&out, "norm", normal, true);
  keep(&out, "stats", stats, false);

  // The backward pass gets the same input for every type. The results of the forward pass would be
  // rounded differently for each type.
  Numbers<S> grad(size, 6), plus(size, 7), arguments(size, 8), grad_sum(size), grad_product(size);
  Numbers<Real> sums(3 * columns), given_stats(2 * rows);
  for (std::int64_t i = 0; i < 3 * columns; ++i) sums.at(i) = 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    given_stats.at(2 * row) = static_cast<Real>(0.25);
    given_stats.at(2 * row + 1) = static_cast<Real>(1.5);
  }
  norm_grad(isa,
            NormGrad<S>{columns, grad.data(), inverted ? nullptr : arguments.data(),
                        inverted ? arguments.data() : nullptr, weight.data(), shift.data(),
                        given_stats.data(), plus.data(), grad_sum.data(), grad_product.data(),
                        norm.dropout},
            1, rows, sums.data(), scratch.get());
  keep(&out, "grad_sum", grad_sum, true);
  keep(&out, "grad_product", grad_product, true);
  keep(&out, "norm's sums", sums, false);

  Numbers<S> from(size, 9, -6, 6), to(size), change(size, 10), added(size, 11);
  Numbers<Real> activation_sums(columns), column(columns), wide(columns);
  for (std::int64_t i = 0; i < columns; ++i) activation_sums.at(i) = column.at(i) = 1;
  const Gelu<S> activation{columns, from.data(), bias.data(), to.data(), tanh};
  gelu(isa, activation, 1, rows);
  gelu_grad(isa, activation, change.data(), 1, rows, activation_sums.data());
  add_bias(isa, added.data(), bias.data(), columns, 1, rows);
  column_sums(isa, residual.data(), columns, 1, rows, column.data());
  keep(&out, "gelu", to, true);
  keep(&out, "gelu's gradient", change, true);
  keep(&out, "gelu's sums", activation_sums, false);
  keep(&out, "with bias", added, true);
  keep(&out, "column sums", column, false);
  Numbers<S> back(columns);
  widen(isa, grad.data(), columns, wide.data());
  narrow(isa, wide.data(), columns, back.data());
  keep(&out, "widened", wide, false);
  keep(&out, "narrowed", back, true);
  return out;
}

template <typename S>
void rows_agree(std::int64_t columns) {
  for (const bool dropout : {false, true})
    for (const bool other : {false, true}) {
      const auto exact = rows_of<double>(Isa::scalar, columns, dropout, other, other);
      for (const Isa isa : sets()) {
        SCOPED_TRACE(std::string(to_string(isa)) + " " + std::to_string(columns));
        expect_near(rows_of<S>(isa, columns, dropout, other, other), exact, 2e-5,
                    2e-5 + Kind<S>::error);
      }
    }
}

// Fails if the results for any instruction set differ from those of the double-precision kernels.
// Covers vectors, tails, conversions, the exponential function and dropout.
TEST(TransformerKernels, InstructionSetsAgreeWithDouble) {
  for (const std::int64_t columns : {1, 3, 8, 15, 16, 17, 40, 384}) {
    rows_agree<float>(columns);
    rows_agree<Bf16>(columns);
    rows_agree<Fp16>(columns);
  }
}

// Fails if GELU or a norm is wrong in the double-precision kernels, which are the reference for the
// others.
TEST(TransformerKernels, DoubleAgreesWithPlainLoops) {
  constexpr std::int64_t columns = 19;
  Numbers<double> product(columns, 1), bias(columns, 2), residual(columns, 3), weight(columns, 4),
      shift(columns, 5);
  Numbers<double> sum(columns), out(columns), stats(2);
  const auto scratch = aligned<double>(columns + 16);
  add_norm(Isa::scalar,
           AddNorm<double>{columns,
                           product.data(),
                           bias.data(),
                           residual.data(),
                           sum.data(),
                           out.data(),
                           weight.data(),
                           shift.data(),
                           1e-3,
                           stats.data(),
                           {}},
           0, 1, scratch.get());
  double mean = 0, variance = 0;
  for (std::int64_t i = 0; i < columns; ++i) mean += (product[i] + bias[i] + residual[i]) / columns;
  for (std::int64_t i = 0; i < columns; ++i)
    variance += std::pow(product[i] + bias[i] + residual[i] - mean, 2) / columns;
  for (std::int64_t i = 0; i < columns; ++i) {
    const double r = product[i] + bias[i] + residual[i];
    EXPECT_NEAR(out[i], (r - mean) / std::sqrt(variance + 1e-3) * weight[i] + shift[i], 1e-12);
  }
  for (const bool tanh : {false, true}) {
    gelu(Isa::scalar, Gelu<double>{columns, product.data(), bias.data(), out.data(), tanh}, 0, 1);
    for (std::int64_t i = 0; i < columns; ++i) {
      const double x = product[i] + bias[i];
      const double part = tanh ? 1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))
                               : std::erfc(-x * M_SQRT1_2);
      EXPECT_NEAR(out[i], x * part / 2, 1e-12);
    }
  }
}

/// Runs attention for one head. The optional mask masks some keys of each query, and all keys of
/// query 2.
template <typename T>
std::vector<Result> attention_of(Isa isa, std::int64_t length, std::int64_t dim, bool masked,
                                 bool dropout) {
  Numbers<T> q(length * dim, 1), k(length * dim, 2), v(length * dim, 3), grad(length * dim, 4);
  Numbers<T> out(length * dim), dq(length * dim), dk(length * dim), dv(length * dim),
      stats(2 * length);
  Numbers<T> mask(length * length);
  Random random(5);
  for (std::int64_t i = 0; i < length * length; ++i)
    mask.at(i) = i / length == 2 || random.once_in(4)
                     ? -std::numeric_limits<T>::infinity()
                     : static_cast<T>(rounded(random.between(-1, 1), Element::bf16));
  FullAttention<T> head{};
  head.q = q.data();
  head.k = k.data();
  head.v = v.data();
  head.row = head.out_row = head.dim = dim;
  head.length = length;
  head.scale = static_cast<T>(0.125);
  head.mask = masked ? mask.data() : nullptr;
  head.mask_row = length;
  head.mask_column = 1;
  head.out = out.data();
  head.stats = stats.data();
  if (dropout) head.dropout = {99, 0x40000000U, 4.0 / 3};
  head.first_row = 7;
  const auto scratch = aligned<T>(full_attention_scratch(dim));
  for (std::int64_t query = 0; query < length; query += attention_tile)
    full_attention(isa, head, query, scratch.get());
  full_attention_grad(isa, head, {grad.data(), dq.data(), dk.data(), dv.data(), dim},
                      scratch.get());
  std::vector<Result> results;
  keep(&results, "out", out, false);
  keep(&results, "dq", dq, false);
  keep(&results, "dk", dk, false);
  keep(&results, "dv", dv, false);
  keep(&results, "stats", stats, false);
  return results;
}

// Fails if the attention kernel for any instruction set is wrong, forward or backward. Covers
// tiles, chunks of keys, masks and dropout.
TEST(TransformerKernels, AttentionAgreesWithDouble) {
  struct Shape {
    std::int64_t length, dim;
  };
  for (const Shape& shape :
       {Shape{1, 16}, Shape{3, 32}, Shape{33, 48}, Shape{64, 64}, Shape{300, 32}})
    for (const bool masked : {false, true})
      for (const bool dropout : {false, true}) {
        const auto exact =
            attention_of<double>(Isa::scalar, shape.length, shape.dim, masked, dropout);
        for (const Isa isa : sets()) {
          SCOPED_TRACE(std::string(to_string(isa)) + " " + std::to_string(shape.length));
          expect_near(attention_of<float>(isa, shape.length, shape.dim, masked, dropout), exact,
                      3e-5, 3e-5);
        }
      }
}

}  // namespace
