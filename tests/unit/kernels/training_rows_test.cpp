// Compares the decoder's row-wise training kernels for each instruction set with the
// double-precision kernels, and those with plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/training/cross_entropy.h"
#include "kernels/training/decoder_rows.h"
#include "unit/kernels/row_numbers.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

constexpr std::int64_t rows = 5;  // the kernels get rows 1 to rows - 1

template <typename S>
void add_norms(std::vector<Result>* out, Isa isa, std::int64_t columns, bool residual,
               double offset) {
  using Real = typename RealOf<S>::type;
  const std::int64_t size = rows * columns;
  Numbers<S> x(size, 1), more(size, 2), weight(columns, 3), sum(size), normal(size);
  Numbers<Real> rstd(rows);
  rms_norm_rows(isa,
                RmsNorm<S>{columns, x.data(), residual ? more.data() : nullptr,
                           residual ? sum.data() : nullptr, weight.data(), normal.data(),
                           rstd.data(), static_cast<Real>(1e-3), static_cast<Real>(offset)},
                1, rows);
  keep(out, "sum", sum, true);
  keep(out, "norm", normal, true);
  keep(out, "rstd", rstd, residual);  // computed from the rounded sum

  // The backward pass gets the same input for every type.
  Numbers<S> grad(size, 4), plus(size, 5), to(size);
  Numbers<Real> given(rows), to_weight(columns);
  for (std::int64_t i = 0; i < rows; ++i) given.at(i) = static_cast<Real>(0.75);
  for (std::int64_t i = 0; i < columns; ++i) to_weight.at(i) = 1;
  const RmsNormGrad<S> pass{
      columns,      grad.data(), residual ? plus.data() : nullptr, x.data(), weight.data(),
      given.data(), to.data(),   static_cast<Real>(offset)};
  rms_norm_grad(isa, pass, 1, rows, to_weight.data());
  keep(out, "norm's gradient", to, true);
  keep(out, "weight's gradient", to_weight, false);
  Numbers<S> alone(size);
  RmsNormGrad<S> frozen = pass;
  frozen.to = alone.data();
  rms_norm_grad<S>(isa, frozen, 1, rows, nullptr);
  keep(out, "norm's gradient with a frozen weight", alone, true);
}

template <typename S>
void add_gates(std::vector<Result>* out, Isa isa, std::int64_t columns, Gate gate) {
  Numbers<S> from(2 * rows * columns, 6, -6, 6), to(rows * columns), grad(rows * columns, 7),
      grad_from(2 * rows * columns);
  const GatedRows<S> pass{columns, from.data(), to.data(), gate};
  gated_rows(isa, pass, 1, rows);
  gated_rows_grad(isa, pass, grad.data(), grad_from.data(), 1, rows);
  keep(out, "gated", to, true);
  keep(out, "gate's gradient", grad_from, true);
}

template <typename S>
void add_rotations(std::vector<Result>* out, Isa isa, std::int64_t half) {
  using Real = typename RealOf<S>::type;
  const std::int64_t time = 3, dim = 2 * half + 3, batch = 2, width = 4 * dim;
  Numbers<Real> cos(time * half, 8), sin(time * half, 9);
  Numbers<S> fused(batch * time * width, 10), back(batch * time * width), q(batch * time * 2 * dim),
      k(batch * time * dim), v(batch * time * dim);
  const auto heads = [&](Numbers<S>& numbers, std::int64_t count) {
    return HeadRows<S>{numbers.data(), time * count * dim, count * dim, dim, count};
  };
  RotaryRows<S> pass{time,       dim,          half,        time,        cos.data(),
                     sin.data(), fused.data(), heads(q, 2), heads(k, 1), heads(v, 1)};
  rotary_split_rows(isa, pass, 1, batch * time);
  keep(out, "query", q, true);
  keep(out, "key", k, true);
  keep(out, "value", v, true);
  pass.fused = back.data();
  Numbers<S> grad_q(q.size, 11), grad_k(k.size, 12), grad_v(v.size, 13);
  pass.q = heads(grad_q, 2);
  pass.k = heads(grad_k, 1);
  pass.v = heads(grad_v, 1);
  rotary_join_rows(isa, pass, 1, batch * time);
  keep(out, "joined", back, true);
}

template <typename S>
void add_losses(std::vector<Result>* out, Isa isa, std::int64_t vocab, double softcap) {
  using Real = typename RealOf<S>::type;
  Numbers<S> logits(rows * vocab, 14, -8, 8);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < rows; ++i) labels.push_back(i * 7919 % vocab);
  Numbers<double> losses(rows);
  CrossEntropy<S> pass{
      vocab, logits.data(), labels.data(), static_cast<Real>(softcap), static_cast<Real>(0.5),
      false, losses.data()};
  if (softcap == 0) {
    cross_entropy_rows(isa, pass, 1, rows);
    keep(out, "loss", losses, false);
  }
  pass.gradient = true;
  cross_entropy_rows(isa, pass, 1, rows);
  keep(out, "loss with gradient", losses, softcap != 0);  // capped logits are rounded
  keep(out, "logits' gradient", logits, true);
}

template <typename S>
std::vector<Result> results_of(Isa isa, std::int64_t columns) {
  std::vector<Result> out;
  add_norms<S>(&out, isa, columns, false, 0);
  add_norms<S>(&out, isa, columns, true, 1);
  for (const Gate gate : {Gate::silu, Gate::gelu, Gate::gelu_tanh, Gate::relu, Gate::relu2})
    add_gates<S>(&out, isa, columns, gate);
  add_rotations<S>(&out, isa, columns);
  for (const double softcap : {0.0, 3.0}) add_losses<S>(&out, isa, columns, softcap);
  return out;
}

template <typename S>
void rows_agree(std::int64_t columns) {
  const auto exact = results_of<double>(Isa::scalar, columns);
  for (const Isa isa : sets()) {
    SCOPED_TRACE(std::string(to_string(isa)) + " " + std::to_string(columns));
    expect_near(results_of<S>(isa, columns), exact, 3e-5, 3e-5 + 2 * Kind<S>::error);
  }
}

// Fails if the results for any instruction set differ from those of the double-precision kernels.
// Covers vectors, tails and conversions; 4100 columns have several partial sums.
TEST(TrainingKernels, InstructionSetsAgreeWithDouble) {
  for (const std::int64_t columns : {1, 3, 8, 15, 16, 17, 40, 4100}) {
    rows_agree<float>(columns);
    rows_agree<Bf16>(columns);
    rows_agree<Fp16>(columns);
  }
}

// Fails if a double-precision kernel, the reference for the others, is wrong.
TEST(TrainingKernels, DoubleAgreesWithPlainLoops) {
  constexpr std::int64_t columns = 19;
  Numbers<double> x(columns, 1), more(columns, 2), weight(columns, 3), sum(columns), out(columns),
      rstd(1);
  rms_norm_rows(Isa::scalar,
                RmsNorm<double>{columns, x.data(), more.data(), sum.data(), weight.data(),
                                out.data(), rstd.data(), 1e-3, 1},
                0, 1);
  double squares = 0;
  for (std::int64_t i = 0; i < columns; ++i) squares += std::pow(x[i] + more[i], 2) / columns;
  for (std::int64_t i = 0; i < columns; ++i)
    EXPECT_NEAR(out[i], (x[i] + more[i]) / std::sqrt(squares + 1e-3) * (weight[i] + 1), 1e-12);

  Numbers<double> gate_up(2 * columns, 4), gated(columns);
  gated_rows(Isa::scalar, GatedRows<double>{columns, gate_up.data(), gated.data(), Gate::silu}, 0,
             1);
  for (std::int64_t i = 0; i < columns; ++i)
    EXPECT_NEAR(gated[i], gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[columns + i], 1e-12);

  Numbers<double> logits(columns, 5), losses(1);
  const std::int64_t label = 7;
  double total = 0;
  for (std::int64_t i = 0; i < columns; ++i) total += std::exp(logits[i]);
  std::vector<double> shares;
  for (std::int64_t i = 0; i < columns; ++i) shares.push_back(std::exp(logits[i]) / total);
  const double loss = std::log(total) - logits[label];
  cross_entropy_rows(
      Isa::scalar, CrossEntropy<double>{columns, logits.data(), &label, 0, 2, true, losses.data()},
      0, 1);
  EXPECT_NEAR(losses[0], loss, 1e-12);
  for (std::int64_t i = 0; i < columns; ++i)
    EXPECT_NEAR(logits[i], 2 * (shares[static_cast<std::size_t>(i)] - (i == label)), 1e-12);
}

// Fails if large logits overflow, or if a NaN is lost.
TEST(TrainingKernels, ExtremeLogits) {
  for (const Isa isa : sets()) {
    std::vector<float> logits = {1e30F, -1e30F, 3e38F, -INFINITY};
    const std::int64_t label = 2;
    double loss = -1;
    const CrossEntropy<float> pass{4, logits.data(), &label, 0, 1, true, &loss};
    cross_entropy_rows(isa, pass, 0, 1);
    EXPECT_EQ(loss, 0) << to_string(isa);
    EXPECT_EQ(logits, std::vector<float>({0, 0, 0, 0})) << to_string(isa);
    logits = {0, NAN, 0, 0};
    cross_entropy_rows(isa, pass, 0, 1);
    EXPECT_TRUE(std::isnan(loss)) << to_string(isa);
    EXPECT_TRUE(std::isnan(logits[0])) << to_string(isa);
  }
}

}  // namespace
