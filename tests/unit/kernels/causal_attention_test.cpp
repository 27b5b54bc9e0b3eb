// Compares causal attention for each instruction set with the double-precision kernel, and that
// kernel with plain loops.
#include "kernels/training/causal_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "unit/kernels/row_numbers.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

template <typename T>
std::vector<Result> attention_of(Isa isa, std::int64_t length, std::int64_t dim,
                                 std::int64_t window) {
  const std::int64_t row = dim + 16, size = length * row;  // rows with gaps
  Numbers<T> q(size, 1), k(size, 2), v(size, 3), grad(size, 4), out(size), dq(size), dk(size),
      dv(size), stats(2 * length);
  for (std::int64_t i = 0; i < size; ++i) dk.at(i) = dv.at(i) = 1;  // the kernel adds to them
  const CausalHead<T> head{
      {q.data(), row}, {k.data(), row},      {v.data(), row},   length,      dim,
      window,          static_cast<T>(0.25), {out.data(), row}, stats.data()};
  const auto scratch = aligned<T>(causal_attention_scratch(dim));
  for (std::int64_t query = 0; query < length; query += causal_tile)
    causal_attention_tile(isa, head, query, scratch.get());
  causal_attention_grad(
      isa, head,
      CausalHeadGrad<T>{{grad.data(), row}, {dq.data(), row}, {dk.data(), row}, {dv.data(), row}},
      scratch.get());
  std::vector<Result> results;
  keep(&results, "out", out, false);
  keep(&results, "dq", dq, false);
  keep(&results, "dk", dk, false);
  keep(&results, "dv", dv, false);
  keep(&results, "stats", stats, false);
  return results;
}

struct Shape {
  std::int64_t length, dim, window;
};
const Shape shapes[] = {{1, 16, 0},   {3, 32, 2},   {33, 48, 0},    {64, 64, 1},   {65, 16, 0},
                        {300, 32, 0}, {600, 16, 0}, {600, 16, 300}, {200, 16, 64}, {200, 16, 65}};

// Fails if the kernel for any instruction set is wrong. Covers tiles, chunks of keys and windows.
TEST(CausalAttention, InstructionSetsAgreeWithDouble) {
  for (const Shape& shape : shapes) {
    const auto exact = attention_of<double>(Isa::scalar, shape.length, shape.dim, shape.window);
    for (const Isa isa : sets()) {
      SCOPED_TRACE(std::string(to_string(isa)) + " " + std::to_string(shape.length) + " " +
                   std::to_string(shape.window));
      expect_near(attention_of<float>(isa, shape.length, shape.dim, shape.window), exact, 5e-5,
                  5e-5);
    }
  }
}

// Fails if the double-precision kernel attends to the wrong keys, or its gradients are wrong.
TEST(CausalAttention, DoubleAgreesWithPlainLoops) {
  for (const Shape& shape : shapes) {
    const auto [length, dim, window] = shape;
    SCOPED_TRACE(std::to_string(length) + " " + std::to_string(window));
    const std::int64_t row = dim + 16, size = length * row;
    const auto got = attention_of<double>(Isa::scalar, length, dim, window);
    const Numbers<double> q(size, 1), k(size, 2), v(size, 3), grad(size, 4);
    std::vector<double> dq(static_cast<std::size_t>(size), 0), dk(dq.size(), 1), dv(dq.size(), 1),
        out(dq.size(), 0);
    const auto in = [&](std::vector<double>& all, std::int64_t at, std::int64_t i) -> double& {
      return all[static_cast<std::size_t>(at * row + i)];
    };
    const auto dot = [&](const Numbers<double>& a, std::int64_t i, const Numbers<double>& b,
                         std::int64_t j) {
      double sum = 0;
      for (std::int64_t d = 0; d < dim; ++d) sum += a[i * row + d] * b[j * row + d];
      return sum;
    };
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t first = window ? std::max<std::int64_t>(0, i - window + 1) : 0;
      std::vector<double> weights;
      double sum = 0, mean = 0;
      for (std::int64_t j = first; j <= i; ++j) {
        weights.push_back(std::exp(0.25 * dot(q, i, k, j)));
        sum += weights.back();
      }
      for (std::int64_t j = first; j <= i; ++j) {
        double& weight = weights[static_cast<std::size_t>(j - first)];
        weight /= sum;
        mean += weight * dot(grad, i, v, j);
        for (std::int64_t d = 0; d < dim; ++d) {
          in(out, i, d) += weight * v[j * row + d];
          in(dv, j, d) += weight * grad[i * row + d];
        }
      }
      for (std::int64_t j = first; j <= i; ++j) {
        const double change =
            0.25 * weights[static_cast<std::size_t>(j - first)] * (dot(grad, i, v, j) - mean);
        for (std::int64_t d = 0; d < dim; ++d) {
          in(dq, i, d) += change * k[j * row + d];
          in(dk, j, d) += change * q[i * row + d];
        }
      }
    }
    const std::vector<double>* wanted[] = {&out, &dq, &dk, &dv};
    for (std::size_t which = 0; which < 4; ++which)
      for (std::int64_t i = 0; i < length; ++i)
        for (std::int64_t d = 0; d < dim; ++d) {
          const auto at = static_cast<std::size_t>(i * row + d);
          ASSERT_NEAR(got[which].values[at], (*wanted[which])[at], 1e-11)
              << got[which].name << " " << i << " " << d;
        }
  }
}

}  // namespace
