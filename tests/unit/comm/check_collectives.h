// Checks the results of every collective of a process group.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "anyaccel/comm.h"

namespace anyaccel::comm {

inline void expect_equal(const at::Tensor& got, const at::Tensor& want) {
  EXPECT_TRUE(at::equal(got.cpu(), want.cpu())) << got.cpu() << "\nwanted\n" << want.cpu();
}

/// Values that identify their rank: 100 * rank + index.
inline at::Tensor of_rank(int rank, int count, const at::TensorOptions& here) {
  return at::arange(count, here).add_(100 * rank);
}

inline void check_reductions(ProcessGroup& group, const at::TensorOptions& here) {
  const int n = group.size();
  const auto sum = [&](int count) {
    return at::arange(count, here.device(at::kCPU)) * n + 100 * (n * (n - 1) / 2);
  };
  auto x = of_rank(group.rank(), 1000, here);
  group.all_reduce(x);
  expect_equal(x, sum(1000));
  for (const auto& [op, want] : {std::pair{ReduceOp::avg, (n + 1) / 2.0},
                                 {ReduceOp::product, std::tgamma(n + 1)},
                                 {ReduceOp::min, 1.0},
                                 {ReduceOp::max, 1.0 * n}}) {
    auto one = at::full({3}, 1.0 + group.rank(), here);
    group.all_reduce(one, op);
    expect_equal(one, at::full({3}, want, here));
  }
  // This view of every second element cannot be reduced in place.
  auto wide = at::full({10, 2}, 1.0, here);
  group.all_reduce(wide.select(1, 1));
  expect_equal(wide.select(1, 0), at::full({10}, 1.0, here));
  expect_equal(wide.select(1, 1), at::full({10}, 1.0 * n, here));

  auto at_last = of_rank(group.rank(), 5, here);
  group.reduce(at_last, n - 1);
  expect_equal(at_last, group.rank() == n - 1 ? sum(5) : of_rank(group.rank(), 5, here));

  expect_equal(group.reduce_scatter(of_rank(group.rank(), 3 * n, here)),
               sum(3 * n).chunk(n)[group.rank()]);
  auto part = at::empty({3, 1}, here);
  group.reduce_scatter_tensor(part, of_rank(group.rank(), 3 * n, here), ReduceOp::max);
  expect_equal(part, (of_rank(n - 1, 3 * n, here)).chunk(n)[group.rank()].view({3, 1}));

  // Two operations in flight. The result of the second one is this rank's part of its input.
  const auto apart = at::empty({3}, here);
  const auto whole = of_rank(group.rank(), 5 * n, here);
  const auto first = group.reduce_scatter_async(apart, of_rank(group.rank(), 3 * n, here));
  const auto within = whole.narrow(0, 5 * group.rank(), 5);
  const auto second = group.reduce_scatter_async(within, whole);
  first.wait();
  second.wait();
  expect_equal(apart, sum(3 * n).chunk(n)[group.rank()]);
  expect_equal(within, sum(5 * n).chunk(n)[group.rank()]);
}

inline void check_movements(ProcessGroup& group, const at::TensorOptions& here) {
  const int n = group.size();
  const int rank = group.rank();
  auto given = of_rank(rank, 4, here);
  group.broadcast(given, n - 1);
  expect_equal(given, of_rank(n - 1, 4, here));

  const auto all = group.all_gather(of_rank(rank, 2, here).view({1, 2}));
  EXPECT_EQ(all.sizes(), at::IntArrayRef({n, 2}));
  auto into = at::empty({2 * n}, here);
  group.all_gather_into_tensor(into, of_rank(rank, 2, here));
  const auto lists = group.gather(of_rank(rank, 2, here), 0);
  EXPECT_EQ(lists.size(), rank == 0 ? n : 0);
  for (int i = 0; i < n; ++i) {
    expect_equal(all[i], of_rank(i, 2, here));
    expect_equal(into.narrow(0, 2 * i, 2), of_rank(i, 2, here));
    if (rank == 0) expect_equal(lists[i], of_rank(i, 2, here));
  }

  std::vector<at::Tensor> parts;
  for (int i = 0; rank == 1 && i < n; ++i) parts.push_back(of_rank(i, 3, here));
  auto mine = at::empty({3}, here);
  group.scatter(mine, parts, 1);
  expect_equal(mine, of_rank(rank, 3, here));

  // Rank r sends i + 1 elements with the value r to each rank i.
  std::vector<at::Tensor> from;
  std::vector<at::Tensor> to;
  std::vector<std::int64_t> sent(n);
  std::iota(sent.begin(), sent.end(), 1);
  for (int i = 0; i < n; ++i) {
    from.push_back(at::full({i + 1}, 1.0 * rank, here));
    to.push_back(at::empty({rank + 1}, here));
  }
  group.all_to_all(to, from);
  auto single = at::empty({n * (rank + 1)}, here);
  group.all_to_all_single(single, at::full({n * (n + 1) / 2}, 1.0 * rank, here),
                          std::vector<std::int64_t>(n, rank + 1), sent);
  for (int i = 0; i < n; ++i) {
    expect_equal(to[i], at::full({rank + 1}, 1.0 * i, here));
    expect_equal(single.narrow(0, i * (rank + 1), rank + 1), to[i]);
  }

  auto message = of_rank(rank, 6, here);
  if (rank == 0) group.send(message, n - 1, 7);
  if (rank == n - 1) {
    group.recv(message, 0, 7);
    expect_equal(message, of_rank(0, 6, here));
  }
  group.barrier();
}

}  // namespace anyaccel::comm
