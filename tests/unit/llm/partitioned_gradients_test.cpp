#include "llm/zero/gradients.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "anyaccel/registry.h"
#include "unit/comm/ranks.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::llm {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors parameters(c10::ScalarType dtype) {
  Tensors out;
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{7, 5}, {3}, {129}, {2, 3, 5}})
    out.push_back(at::full(sizes, 1.0, dtype).set_requires_grad(true));
  // A transposed parameter, as in GPT-2.
  out.push_back(at::full({4, 6}, 1.0, dtype).t().set_requires_grad(true));
  return out;
}

/// A loss for which every element of parameter i has the gradient (i + 1) * `factor`. Parameter
/// `without` gets no gradient.
at::Tensor loss_of(const Tensors& parameters, double factor, std::size_t without) {
  at::Tensor loss = at::zeros({});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i != without)
      loss = loss.add(parameters[i].mul(factor * static_cast<double>(i + 1)).sum().to(at::kFloat));
  }
  return loss;
}

Partition partition_of(const Tensors& parameters, std::int64_t most, int rank, int ranks) {
  std::vector<PartitionItem> items;
  for (const at::Tensor& parameter : parameters) items.push_back({parameter.numel()});
  return Partition(items, most, rank, ranks);
}

void expect_means(const PartitionedGradients& gradients, const Partition& partition, double factor,
                  std::size_t without) {
  for (std::size_t b = 0; b < partition.buckets().size(); ++b) {
    for (const OwnedSlice& slice : partition.buckets()[b].slices) {
      const double want =
          slice.parameter == without ? 0 : factor * static_cast<double>(slice.parameter + 1);
      const at::Tensor got = gradients.part(b).narrow(0, slice.place, slice.count);
      EXPECT_TRUE(at::equal(got, at::full({slice.count}, want, at::kFloat)))
          << "parameter " << slice.parameter << ": " << got << "\nwanted " << want;
    }
  }
}

/// Two steps of two passes each.
void check_steps(const Tensors& all, const Partition& partition, comm::ProcessGroup* group,
                 bool parts_only) {
  const int rank = partition.rank();
  const double mean = (partition.ranks() + 1) / 2.0;
  PartitionedGradients gradients(all, partition, group, {.parts_only = parts_only});
  for (int step = 1; step <= 2; ++step) {
    for (const bool last : {false, true}) {
      gradients.begin(last);
      loss_of(all, 8.0 * step * (rank + 1), 1).backward();
      gradients.end();
    }
    for (const at::Tensor& parameter : all) EXPECT_FALSE(parameter.grad().defined());
    expect_means(gradients, partition, 16 * step * mean, 1);
    EXPECT_EQ(gradients.present(), (std::vector<bool>{true, false, true, true, true}));
    gradients.reset();
  }
  // A rank without data takes part in a pass.
  gradients.begin(true);
  if (rank == 0) loss_of(all, 4.0 * partition.ranks(), 1).backward();
  gradients.end();
  expect_means(gradients, partition, 4, 1);
}

// Fails if gradients of one rank are not accumulated, or keep their memory.
TEST(PartitionedGradients, OneRank) {
  set_accelerator("cpu");
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t most : {1, 100000}) {
      const Tensors all = parameters(dtype);
      const Partition partition = partition_of(all, most, 0, 1);
      check_steps(all, partition, nullptr, false);
    }
  }
}

// Fails if a part is not the mean over the ranks of the sum over the passes, for either stage, if a
// rank that lacks a gradient or has no data blocks the others, or if memory that several buckets
// share mixes their gradients.
TEST(PartitionedGradients, SeveralRanks) {
  for (const int size : {2, 3}) {
    for (const int status : test::in_processes(size, [size](int rank) {
           set_accelerator("cpu");
           comm::ProcessGroup group = comm::init_process_group();
           for (const bool parts_only : {false, true}) {
             for (const std::int64_t most : {1, 64, 100000}) {
               const Tensors all = parameters(at::kFloat);
               const Partition partition = partition_of(all, most, rank, size);
               check_steps(all, partition, &group, parts_only);
             }
           }
           group.barrier();
           if (rank == 0) test::wait_for_other_ranks();
         }))
      EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace anyaccel::llm
