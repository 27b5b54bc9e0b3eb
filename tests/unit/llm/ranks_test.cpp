#include "llm/train/ranks.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "anyaccel/error.h"
#include "anyaccel/registry.h"
#include "unit/comm/ranks.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::llm {
namespace {

// Fails if a sequence in the batch belongs to two ranks or to none, or ranks get uneven parts. The
// weighted mean over ranks must equal the mean over the batch.
TEST(Ranks, PartsOfABatch) {
  for (const int size : {1, 2, 3, 7})
    for (std::int64_t batch = size; batch < 30; ++batch) {
      std::int64_t next = 0;
      double whole = 0;
      for (int rank = 0; rank < size; ++rank) {
        const BatchShare share = share_of_batch(batch, rank, size);
        EXPECT_EQ(share.begin, next);
        EXPECT_GE(share.count, batch / size);
        EXPECT_LE(share.count, (batch + size - 1) / size);
        EXPECT_DOUBLE_EQ(share.weight / size,
                         static_cast<double>(share.count) / static_cast<double>(batch));
        EXPECT_EQ(share.weight == 1, batch % size == 0);
        next += share.count;
        whole += share.weight / size;
      }
      EXPECT_EQ(next, batch);
      EXPECT_NEAR(whole, 1, 1e-12);
    }
  EXPECT_ERROR(share_of_batch(2, 0, 3), invalid_argument, "batch-size");
}

// Fails if a process group is created in a program without a launcher or in a job with one rank.
TEST(Ranks, OneRankNeedsNoGroup) {
  for (const char* size : {static_cast<const char*>(nullptr), "1"}) {
    const test::ScopedEnv world("WORLD_SIZE", size);
    Ranks ranks;
    EXPECT_EQ(ranks.group(), nullptr);
    EXPECT_EQ(ranks.size(), 1);
    EXPECT_TRUE(ranks.first());
    EXPECT_EQ(ranks.from_first("text"), "text");
    const StepNews news = ranks.exchange(2.5, {}, 7, true);
    EXPECT_EQ(news.loss, 2.5);
    EXPECT_EQ(news.seconds, 7);
    EXPECT_TRUE(news.stop);
    EXPECT_TRUE(ranks.all_have({at::ones({3})}));
    ranks.barrier();
  }
}

// Fails if ranks do not detect a single different bit in the weights of one rank, or report a
// difference although the weights are equal.
TEST(Ranks, DetectDifferentWeights) {
  for (const int status : test::in_processes(3, [](int rank) {
         set_accelerator("cpu");
         Ranks ranks;
         const std::vector<at::Tensor> tensors{at::ones({2, 3}).t(), at::zeros({0}),
                                               at::full({257}, 0.1, at::kDouble)};
         auto* last = static_cast<char*>(tensors[2].mutable_data_ptr()) + 2048;
         EXPECT_TRUE(ranks.all_have(tensors));
         if (rank == 2) *last ^= 1;
         EXPECT_FALSE(ranks.all_have(tensors));
         if (rank == 2) *last ^= 1;
         EXPECT_TRUE(ranks.all_have(tensors));
         if (rank == 0) test::wait_for_other_ranks();
       }))
    EXPECT_EQ(status, 0);
}

void fail_always() { throw Error(ErrorCode::io, "load", {.what = "no"}); }

// Fails if an error on one rank leaves the others waiting, or if their error does not name that
// rank and its reason.
TEST(Ranks, FailTogether) {
  for (const int status : test::in_processes(3, [](int rank) {
         set_accelerator("cpu");
         Ranks ranks;
         ranks.together([] {});
         const auto fail = [rank] {
           if (rank == 1)
             throw Error(ErrorCode::io, "save", {.what = "cannot write " + std::string(2000, 'x')});
         };
         EXPECT_ERROR(
             ranks.together(fail), io,
             rank == 1 ? "[save] cannot write xxx" : "rank 1 failed: [save] cannot write xxx");
         EXPECT_ERROR(naming_rank(fail_always), io,
                      "[rank " + std::to_string(rank) + "] [load] no");
         if (rank == 0) test::wait_for_other_ranks();
       }))
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace anyaccel::llm
