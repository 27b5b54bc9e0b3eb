// Tests process groups that use oneCCL.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "anyaccel/ops/ccl_comm.h"
#include "anyaccel/sdk/op_builder.h"
#include "unit/comm/check_collectives.h"
#include "unit/comm/ranks.h"
#include "unit/support/expect_error.h"

namespace anyaccel::comm {
namespace {

bool can_have_ccl() {
  const auto child = ::fork();
  if (child == 0) {
    set_accelerator("cpu");
    ::_exit(get_accelerator().create_op_builder("CCLCommBuilder")->is_compatible().compatible ? 0
                                                                                              : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

class OneCcl : public testing::TestWithParam<int> {};

// Fails if requesting "ccl" gives another backend, or oneCCL gives wrong results.
TEST_P(OneCcl, EveryCollective) {
  // The check runs in a separate process, because the forked ranks would inherit the libraries that
  // the check loads.
  if (!can_have_ccl()) GTEST_SKIP() << "the op CCLCommBuilder is not compatible here";
  // The ranks load oneCCL and the op's library in child processes, because the libraries do not
  // survive a fork.
  for (const auto status : test::in_processes(GetParam(), [](int rank) {
         set_accelerator("cpu");
         auto group = init_process_group(
             {.backend = kCcl, .timeout = std::chrono::seconds(100), .shared_memory = false});
         EXPECT_EQ(group.backend_name(), "ccl");
         EXPECT_EQ(group.backend_reason(), "");
         const auto here = at::TensorOptions().dtype(at::kFloat);
         check_reductions(group, here);
         check_movements(group, here);
         auto bits = at::full({3}, 1 << rank, at::kInt);
         std::vector<at::Tensor> list{bits};
         group.c10d_group()->allreduce(list, {.reduceOp = c10d::ReduceOp::BOR})->wait();
         expect_equal(bits, at::full({3}, (1 << group.size()) - 1, at::kInt));
         if (group.size() == 4) {
           auto pair = group.new_group(rank < 2 ? std::vector{0, 1} : std::vector{2, 3});
           check_reductions(pair, here);
           check_movements(pair, here);
         }
         group.barrier();
         if (rank == 0) test::wait_for_other_ranks();
       }))
    EXPECT_EQ(status, 0);
}

// Fails if oneCCL's thread holds a tensor after a call has returned. Releasing the tensor on that
// thread while Python exits would abort the process.
TEST(OneCclThread, ReleasesTensorsBeforeACallReturns) {
  if (!can_have_ccl()) GTEST_SKIP() << "the op CCLCommBuilder is not compatible here";
  for (const auto status : test::in_processes(2, [](int rank) {
         set_accelerator("cpu");
         const auto file = std::filesystem::temp_directory_path() /
                           ("anyaccel-ccl-" + std::string(std::getenv("MASTER_PORT")));
         ops::CCLComm comm(c10::make_intrusive<c10d::FileStore>(file.string(), 2), rank, 2,
                           std::chrono::seconds(100));
         int held = 0;
         for (int i = 0; i < 500; ++i) {
           const auto x = at::full({4}, 1.0);
           comm.all_reduce_(x);
           held += x.use_count() != 1;
         }
         EXPECT_EQ(held, 0);
         comm.barrier();
       }))
    EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, OneCcl, testing::Values(2, 4));

// Fails if oneCCL accepts ranks that are threads of one process. oneCCL cannot distinguish such
// ranks, and they would deadlock.
TEST(OneCclInThreads, IsRejected) {
  if (const char* mode = std::getenv("ANYACCEL_CCL"); mode != nullptr && std::string(mode) == "off")
    GTEST_SKIP() << "ANYACCEL_CCL is off, for example because oneCCL fails under sanitizers";
  if (!can_have_ccl()) GTEST_SKIP() << "the op CCLCommBuilder is not compatible here";
  set_accelerator("cpu");
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  test::in_threads(2, [&](int rank) {
    EXPECT_ERROR(
        init_process_group({.backend = kCcl, .store = store, .rank = rank, .world_size = 2}),
        unsupported, "one process per rank");
  });
}

// Fails if the other ranks wait for a rank without oneCCL, or use another backend instead.
TEST(MissingOneCcl, IsUnavailableOnAllRanks) {
  for (const auto status : test::in_processes(2, [](int rank) {
         set_accelerator("cpu");
         if (rank == 1)
           sdk::register_op_builder("cpu", "CCLCommBuilder", [] {
             return std::make_shared<sdk::NotImplementedBuilder>("CCLCommBuilder", "cpu");
           });
         const auto before = std::chrono::steady_clock::now();
         EXPECT_ERROR(init_process_group({.backend = kCcl, .timeout = std::chrono::seconds(500)}),
                      unavailable, "oneCCL cannot be used: rank");
         EXPECT_LT(std::chrono::steady_clock::now() - before,
                   std::chrono::seconds(250));  // half of the timeout
         if (rank == 0) test::wait_for_other_ranks();
       }))
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace anyaccel::comm
