#include "ops/sparse_attn/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace {

using namespace anyaccel::ops;

template <typename T>
struct Case {
  std::int64_t block, rows, dim;
  std::vector<T> q, k, v, grad, rpe, out, stats, dq, dk, dv;
  std::vector<std::int32_t> first{0}, columns;

  Case(std::int64_t block_size, std::int64_t block_rows, std::int64_t width)
      : block(block_size), rows(block_rows), dim(width) {
    std::mt19937 random(3);  // the same numbers for both types
    std::normal_distribution<float> normal;
    for (auto* array : {&q, &k, &v, &grad}) {
      array->resize(size());
      for (T& value : *array) value = normal(random);
    }
    rpe.resize(static_cast<std::size_t>(block * rows * block * rows));
    for (T& value : rpe) value = random() % 5 ? T{normal(random)} : -std::numeric_limits<T>::infinity();
    for (auto* array : {&out, &dq, &dk, &dv}) array->assign(size(), 0);
    stats.resize(static_cast<std::size_t>(2 * block * rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < rows; ++column)
        if (row && random() % 3) columns.push_back(static_cast<std::int32_t>(column));
      first.push_back(static_cast<std::int32_t>(columns.size()));
    }
  }

  std::size_t size() const { return static_cast<std::size_t>(block * rows * dim); }

  void run(Isa isa) {
    AttentionHead<T> head{};
    head.q = q.data();
    head.k = k.data();
    head.v = v.data();
    head.q_row = head.k_row = head.v_row = head.dim = dim;
    head.block = block;
    head.scale = static_cast<T>(0.125);
    head.rpe = rpe.data();
    head.rpe_row = block * rows;
    head.rpe_column = 1;
    head.out = out.data();
    head.stats = stats.data();
    head.first = first.data();
    head.columns = columns.data();
    const std::unique_ptr<T[], void (*)(T*)> scratch(
        static_cast<T*>(
            ::operator new (static_cast<std::size_t>(attention_scratch(dim)) * sizeof(T), std::align_val_t{64})),
        [](T* at) { ::operator delete (at, std::align_val_t{64}); });
    for (std::int64_t row = 0; row < rows; ++row) attention_forward(isa, head, row, scratch.get());
    attention_backward(isa, head, {grad.data(), dq.data(), dk.data(), dv.data(), nullptr, 0}, rows, scratch.get());
  }
};

void expect_near(const std::vector<float>& got, const std::vector<double>& want, const char* what) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-5 * (1 + std::abs(want[i]))) << what << " " << i;
}

// Fails when an instruction set's vectors, their tails or its exponential are wrong: this machine chooses one alone.
TEST(SparseAttention, InstructionSetsAgreeWithDouble) {
  struct Shape {
    std::int64_t block, rows, dim;
  };
  for (const Shape& shape : {Shape{16, 5, 16}, Shape{48, 3, 48}, Shape{64, 7, 64}, Shape{128, 3, 32}}) {
    Case<double> exact(shape.block, shape.rows, shape.dim);
    exact.run(Isa::scalar);
    for (const Isa isa : {Isa::scalar, Isa::neon, Isa::avx2, Isa::avx512}) {
      if (!has_isa(isa)) continue;
      SCOPED_TRACE(to_string(isa));
      Case<float> fast(shape.block, shape.rows, shape.dim);
      fast.run(isa);
      expect_near(fast.out, exact.out, "out");
      expect_near(fast.dq, exact.dq, "dq");
      expect_near(fast.dk, exact.dk, "dk");
      expect_near(fast.dv, exact.dv, "dv");
      for (std::size_t i = 0; i < static_cast<std::size_t>(shape.block); ++i)
        EXPECT_TRUE(fast.stats[2 * i + 1] == 0 && fast.out[i] == 0) << "the first row sees nothing";
    }
  }
}

}  // namespace
