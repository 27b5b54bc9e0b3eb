// Tests the c10d "shm" backend in C++ programs.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "anyaccel/sdk/op_builder.h"
#include "unit/comm/check_collectives.h"
#include "unit/comm/ranks.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::comm {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using Tensors = std::vector<at::Tensor>;

class ShmBackendTest : public testing::Test {
 protected:
  ShmBackendTest() { set_accelerator("cpu"); }

  /// Runs `body(backend, rank)` on `size` threads.
  template <typename Body>
  static void ranks(int size, const Body& body,
                    std::chrono::seconds timeout = std::chrono::seconds(60)) {
    const StorePtr store = c10::make_intrusive<c10d::HashStore>();
    test::in_threads(size, [&](int rank) {
      const auto backend =
          make_backend(kShm, store, {.rank = rank, .size = size, .timeout = timeout});
      EXPECT_EQ(backend->getBackendName(), "shm");
      body(backend, rank);
      backend->barrier({.asyncOp = false})->wait();
    });
  }

  test::ScopedEnv no_ccl_{"ANYACCEL_CCL",
                          "off"};  // oneCCL requires one process per rank; these ranks are threads
};

// Fails if a collective of the public class returns a wrong result with this backend.
TEST_F(ShmBackendTest, EveryCollective) {
  for (const int size : {1, 2, 3}) {
    const StorePtr store = c10::make_intrusive<c10d::HashStore>();
    test::in_threads(size, [&](int rank) {
      auto group = init_process_group({.backend = kShm,
                                       .store = store,
                                       .rank = rank,
                                       .world_size = size,
                                       .timeout = std::chrono::seconds(60),
                                       .shared_memory = false});
      EXPECT_EQ(group.backend_name(), "shm");
      EXPECT_EQ(group.backend_reason(), "");
      const auto here = at::TensorOptions().dtype(at::kFloat);
      check_reductions(group, here);
      if (size > 1) check_movements(group, here);
      group.barrier();
    });
  }
}

// Fails if an asynchronous operation blocks its caller, or a later synchronous one overtakes it.
TEST_F(ShmBackendTest, QueuedOperationsRunInOrder) {
  std::promise<void> may_start;
  auto started = may_start.get_future().share();
  ranks(2, [&](const BackendPtr& backend, int rank) {
    Tensors first{at::full({1000}, 1.0 + rank)};
    Tensors second{first};
    if (rank == 1) started.wait();
    const auto work = backend->allreduce(first, {});
    if (rank == 0) {
      EXPECT_FALSE(work->isCompleted());
      may_start.set_value();
    }
    backend->allreduce(second, {.asyncOp = false})->wait();
    EXPECT_TRUE(work->isCompleted());
    EXPECT_TRUE(at::equal(second[0], at::full({1000}, 6.0)));
    // Nothing is queued anymore, so the operation is complete when the call returns.
    const auto done = backend->allreduce(second, {.asyncOp = false});
    EXPECT_TRUE(done->isCompleted());
    EXPECT_EQ(done->getFuture()->value().toTensorVector()[0].data_ptr(), second[0].data_ptr());
    EXPECT_EQ(second[0][0].item<float>(), 12);
  });
}

// Fails if the values are not multiplied before they are added up, or a dtype is not rejected.
TEST_F(ShmBackendTest, PremultipliedSums) {
  ranks(2, [](const BackendPtr& backend, int rank) {
    Tensors list{at::full({5}, 1.0 + rank)};
    backend->allreduce(list, {.reduceOp = c10d::makePreMulSum(0.5)})->wait();
    EXPECT_EQ(list[0][4].item<float>(), 1.5);
    list[0] = at::full({5}, 1.0 + rank);
    backend->allreduce(list, {.reduceOp = c10d::makePreMulSum(at::full({1}, 2.0 + rank))})->wait();
    EXPECT_EQ(list[0][4].item<float>(), 8);
    Tensors shorts{at::full({2}, 1, at::kShort)};
    EXPECT_ERROR(backend->allreduce(shorts, {.reduceOp = c10d::makePreMulSum(0.5)}), unsupported,
                 "PREMUL_SUM requires a floating-point dtype");
  });
}

// Fails if the time limit of the group or of one operation is ignored, or the error does not name
// the late rank.
TEST_F(ShmBackendTest, TimeLimits) {
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  test::in_threads(2, [&](int rank) {
    for (const bool of_group : {true, false}) {
      const auto backend = make_shm_backend(
          c10::make_intrusive<c10d::PrefixStore>(of_group ? "group" : "operation", store),
          {.rank = rank, .size = 2});
      if (of_group) backend->setTimeout(std::chrono::milliseconds(300));
      const std::string key = of_group ? "late in group" : "late in operation";
      if (rank == 0) {
        Tensors list{at::full({2}, 1.0)};
        c10d::AllreduceOptions options;
        if (!of_group) options.timeout = std::chrono::milliseconds(300);
        EXPECT_ERROR(backend->allreduce(list, options)->wait(), timeout,
                     "rank 1 did not respond in time");
        store->set(key, std::vector<std::uint8_t>{1});
      } else {
        store->wait({key});
      }
    }
  });
}

// Fails if abort() does not end an operation of another rank that is in progress.
TEST_F(ShmBackendTest, AbortEndsOperationsOfAllRanks) {
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  test::in_threads(2, [&](int rank) {
    const auto backend = make_shm_backend(store, {.rank = rank, .size = 2});
    if (rank == 1) {
      store->wait({"waiting"});
      backend->abort();
    }
    Tensors list{at::full({2}, 1.0)};
    c10::intrusive_ptr<c10d::Work> work;
    if (rank == 0) {
      work = backend->allreduce(list, {});
      store->set("waiting", std::vector<std::uint8_t>{1});
      EXPECT_ERROR(work->wait(), unavailable, "rank 1 aborted the group");
    } else {
      EXPECT_ERROR(backend->allreduce(list, {.asyncOp = false})->wait(), unavailable,
                   "rank 1 aborted the group");
    }
  });
}

// Fails if a group that c10d splits off has the wrong ranks or a different backend.
TEST_F(ShmBackendTest, Split) {
  ranks(3, [](const BackendPtr& backend, int rank) {
    const StorePtr store = c10::make_intrusive<c10d::HashStore>();
    EXPECT_TRUE(backend->supportsSplitting());
    EXPECT_EQ(backend->split(store, {(rank + 1) % 3}, {}).get(), nullptr);
    const auto own = backend->split(store, {rank}, {});
    ASSERT_NE(own.get(), nullptr);
    EXPECT_EQ(own->getBackendName(), "shm");
    EXPECT_EQ(own->getSize(), 1);
    EXPECT_ERROR(backend->split(store, {3}, {}), invalid_argument, "0 to 2");
  });
}

// Fails if a rank that cannot load the op makes other ranks wait, or fail.
TEST(ShmBackendWithoutOp, AllRanksUseGloo) {
  for (const auto status : test::in_processes(2, [](int rank) {
         set_accelerator("cpu");
         if (rank == 1)
           sdk::register_op_builder("cpu", "ShareMemCommBuilder", [] {
             return std::make_shared<sdk::NotImplementedBuilder>("ShareMemCommBuilder", "cpu");
           });
         testing::internal::CaptureStderr();
         auto group = init_process_group(
             {.backend = kShm, .timeout = std::chrono::seconds(100), .shared_memory = false});
         const auto log = testing::internal::GetCapturedStderr();
         EXPECT_EQ(log.find("the shm backend falls back to gloo: rank 1: ") != std::string::npos,
                   rank == 0)
             << log;
         check_reductions(group, at::TensorOptions().dtype(at::kFloat));
         check_movements(group, at::TensorOptions().dtype(at::kFloat));
         group.barrier();
         if (rank == 0) test::wait_for_other_ranks();
       }))
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace anyaccel::comm
