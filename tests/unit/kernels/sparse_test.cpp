#include "kernels/attention/sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/attention/divide.h"
#include "unit/kernels/arrays.h"

namespace {

using namespace anyaccel::ops;

template <typename T>
struct Case {
  std::int64_t block, rows, dim;
  std::vector<T> q, k, v, grad, rpe, out, stats, dq, dk, dv;
  std::vector<std::int64_t> first{0};
  std::vector<std::int32_t> columns;

  Case(std::int64_t block_size, std::int64_t block_rows, std::int64_t width)
      : block(block_size), rows(block_rows), dim(width) {
    std::mt19937 random(3);  // the same numbers for both types
    std::normal_distribution<float> normal;
    for (auto* array : {&q, &k, &v, &grad}) {
      array->resize(size());
      for (T& value : *array) value = normal(random);
    }
    rpe.resize(static_cast<std::size_t>(block * rows * block * rows));
    for (T& value : rpe)
      value = random() % 5 ? T{normal(random)} : -std::numeric_limits<T>::infinity();
    for (auto* array : {&out, &dq, &dk, &dv}) array->assign(size(), 0);
    stats.resize(static_cast<std::size_t>(2 * block * rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < rows; ++column)
        if (row && random() % 3) columns.push_back(static_cast<std::int32_t>(column));
      first.push_back(static_cast<std::int64_t>(columns.size()));
    }
  }

  std::size_t size() const { return static_cast<std::size_t>(block * rows * dim); }

  void run(Isa isa) { run(isa, {{0, rows, 0, rows}}); }

  void run(Isa isa, const std::vector<BlockSquare>& squares) {
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
        static_cast<T*>(::operator new (
            static_cast<std::size_t>(attention_scratch(dim)) * sizeof(T), std::align_val_t{64})),
        [](T* at) { ::operator delete (at, std::align_val_t{64}); });
    for (std::int64_t row = 0; row < rows; ++row) attention_forward(isa, head, row, scratch.get());
    for (const BlockSquare& square : squares)
      attention_backward(isa, head, {grad.data(), dq.data(), dk.data(), dv.data(), nullptr, 0},
                         square, scratch.get());
  }
};

void expect_near(const std::vector<float>& got, const std::vector<double>& want, const char* what) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-5 * (1 + std::abs(want[i])))
        << what << " " << i;
}

// Fails if the results for any instruction set differ from those of the double-precision kernel.
// Each instruction set must be tested explicitly, because a machine otherwise uses only the best
// one that it supports.
TEST(SparseAttention, InstructionSetsAgreeWithDouble) {
  struct Shape {
    std::int64_t block, rows, dim;
  };
  for (const Shape& shape :
       {Shape{16, 5, 16}, Shape{48, 3, 48}, Shape{64, 7, 64}, Shape{128, 3, 32}}) {
    Case<double> exact(shape.block, shape.rows, shape.dim);
    exact.run(Isa::scalar);
    for (const Isa isa : op_tests::sets()) {
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

// Fails if a block is skipped or repeated, two threads write the same rows or columns in one step,
// or threads are idle although there is work for them.
TEST(SparseAttention, BackwardPassIsDivided) {
  for (const std::int64_t slices : {1, 2, 3, 8, 40})
    for (const std::int64_t rows : {1, 2, 7, 32, 129})
      for (const std::int64_t threads : {1, 2, 16}) {
        SCOPED_TRACE(testing::Message()
                     << slices << " slices, " << rows << " rows, " << threads << " threads");
        const Division parts(slices, rows, threads);
        ASSERT_GE(parts.tasks(), std::min(threads, slices * rows));
        std::vector<int> done(static_cast<std::size_t>(slices * rows * rows), 0);
        for (std::int64_t step = 0; step < parts.groups; ++step) {
          std::vector<int> row_used(static_cast<std::size_t>(slices * rows), 0),
              column_used = row_used;
          for (std::int64_t task = 0; task < parts.tasks(); ++task) {
            const BlockSquare square = parts.square(step, task);
            const std::int64_t first = parts.slice(task) * rows;
            for (std::int64_t row = square.row; row < square.row_end; ++row) {
              ++row_used.at(static_cast<std::size_t>(first + row));
              for (std::int64_t column = square.column; column < square.column_end; ++column)
                ++done.at(static_cast<std::size_t>((first + row) * rows + column));
            }
            for (std::int64_t column = square.column; column < square.column_end; ++column)
              ++column_used.at(static_cast<std::size_t>(first + column));
          }
          ASSERT_EQ(row_used, std::vector<int>(row_used.size(), 1));
          ASSERT_EQ(column_used, row_used);
        }
        ASSERT_EQ(done, std::vector<int>(done.size(), 1));
      }
}

// Fails if a square of blocks reads outside its bounds, or overwrites the sums of other squares.
TEST(SparseAttention, SquaresSumToTheWhole) {
  Case<double> whole(16, 7, 16), parts(16, 7, 16);
  whole.run(Isa::scalar);
  const Division division(1, 7, 2);
  ASSERT_GT(division.groups, 3);
  std::vector<BlockSquare> squares;
  for (std::int64_t step = 0; step < division.groups; ++step)
    for (std::int64_t task = 0; task < division.tasks(); ++task)
      squares.push_back(division.square(step, task));
  parts.run(Isa::scalar, squares);
  for (std::size_t i = 0; i < whole.dq.size(); ++i) {
    ASSERT_NEAR(parts.dq[i], whole.dq[i], 1e-13);
    ASSERT_NEAR(parts.dk[i], whole.dk[i], 1e-13);
    ASSERT_NEAR(parts.dv[i], whole.dv[i], 1e-13);
  }
}

}  // namespace
