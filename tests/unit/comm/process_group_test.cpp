#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "anyaccel/registry.h"
#include "unit/comm/check_collectives.h"
#include "unit/comm/ranks_on_backends.h"
#include "unit/support/expect_error.h"

namespace anyaccel::comm {
namespace {

class ProcessGroups : public RanksOnBackends {
 protected:
  /// Runs `body` on each rank. The ranks leave the group at the same time.
  template <typename Body>
  void ranks(const Body& body) {
    RanksOnBackends::ranks([&](ProcessGroup& group, const at::TensorOptions& here) {
      body(group, here);
      group.barrier();
    });
  }
};

// Fails if a collective gives wrong results, with the communication backend or with shared memory.
TEST_P(ProcessGroups, EveryCollective) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    check_reductions(group, here);
    check_movements(group, here);
    // The same group must also accept host tensors.
    check_reductions(group, here.device(at::kCPU));
    check_movements(group, here.device(at::kCPU));
  });
}

// Fails if an asynchronous operation or its error is lost, or operations are reordered.
TEST_P(ProcessGroups, AsynchronousSums) {
  ranks([](ProcessGroup& group, const at::TensorOptions& accelerators) {
    for (const auto& here : {accelerators, accelerators.device(at::kCPU)}) {
      const int n = group.size();
      std::vector<at::Tensor> sums;
      std::vector<Work> works;
      for (int i = 0; i < 5; ++i) {
        sums.push_back(of_rank(group.rank(), 50000, here));
        works.push_back(
            group.all_reduce_async(sums.back(), i % 2 == 0 ? ReduceOp::sum : ReduceOp::avg));
      }
      auto after = at::full({3}, 1.0, here);
      group.all_reduce(after);
      expect_equal(after, at::full({3}, 1.0 * n, here));
      const auto sum = at::arange(50000, here.device(at::kCPU)) * n + 100 * (n * (n - 1) / 2);
      for (int i = 0; i < 5; ++i) {
        works[i].wait();
        works[i].wait();  // wait() may be called again
        EXPECT_TRUE(works[i].done());
        expect_equal(sums[i], i % 2 == 0 ? sum : sum / n);
      }
      EXPECT_THROW(
          group.all_reduce_async(at::full({3}, 1, here.dtype(at::kInt)), ReduceOp::avg).wait(),
          Error);
    }
    EXPECT_TRUE(Work().done());
    Work().wait();
  });
}

// Fails if a thread of the staged backend holds a reference to the caller's tensor. Releasing a
// tensor that has a Python object requires the GIL, and acquiring the GIL while the interpreter
// exits aborts the process.
TEST_P(ProcessGroups, ThreadsHoldNoTensorOfTheCaller) {
  if (std::string(std::get<0>(GetParam())) == "cpu") GTEST_SKIP() << "the CPU uses torch's gloo";
  ranks([](ProcessGroup& group, const at::TensorOptions& accelerators) {
    for (const auto& here : {accelerators, accelerators.device(at::kCPU)}) {
      std::vector<at::Tensor> sum{of_rank(group.rank(), 100, here)};
      const auto version = sum[0]._version();
      const auto work = group.c10d_group()->allreduce(sum);
      EXPECT_EQ(sum[0].use_count(), 1);
      work->wait();
      EXPECT_EQ(sum[0].use_count(), 1);
      EXPECT_GE(sum[0]._version(), version);
      std::vector<at::Tensor> message{of_rank(group.rank(), 6, here)};
      const int last = group.size() - 1;
      if (group.rank() == 0) group.c10d_group()->send(message, last, 3)->wait();
      if (group.rank() == last) {
        const auto receive = group.c10d_group()->recv(message, 0, 3);
        EXPECT_EQ(message[0].use_count(), 1);
        receive->wait();
        expect_equal(message[0], of_rank(0, 6, here));
      }
    }
  });
}

// Fails if shared memory is used although it is disabled, or not used although it is enabled.
TEST_P(ProcessGroups, SharedMemoryFollowsTheOption) {
  ranks([](ProcessGroup& group, const at::TensorOptions&) {
    const bool wanted = std::get<2>(GetParam());
    if (wanted)
      EXPECT_EQ(group.shared_memory_reason(), "");
    else
      EXPECT_NE(group.shared_memory_reason().find("disabled"), std::string::npos)
          << group.shared_memory_reason();
  });
}

class FourRanks : public ProcessGroups {};

// Fails if subgroups receive each other's messages, or use global ranks instead of group ranks.
TEST_P(FourRanks, CreateSubgroups) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    const std::vector<int> mine = group.rank() < 2 ? std::vector{1, 0} : std::vector{2, 3};
    auto pair = group.new_group(mine);
    EXPECT_EQ(pair.size(), 2);
    EXPECT_EQ(pair.ranks(), group.rank() < 2 ? std::vector({0, 1}) : std::vector({2, 3}));
    auto x = at::full({4}, 1.0 + group.rank(), here);
    pair.all_reduce(x);
    expect_equal(x, at::full({4}, group.rank() < 2 ? 3.0 : 7.0, here));
    check_movements(pair, here);
    auto again = group.new_group(mine);  // a different group with the same ranks
    again.broadcast(x, 1);
    auto single = again.new_group({again.rank()});
    single.all_reduce(x);
    EXPECT_EQ(single.ranks(), std::vector({group.rank()}));
    if (group.rank() != 3) {
      auto three = group.new_group({0, 1, 2});
      check_reductions(three, here);
      three.barrier();
    }
    EXPECT_ERROR(group.new_group({(group.rank() + 1) % 4}), invalid_argument,
                 "is not in the new group");
    EXPECT_ERROR(group.new_group({0, 0}), invalid_argument, "twice");
    EXPECT_ERROR(group.new_group({0, 4}), invalid_argument, "0 to 3");
  });
}

// Fails if an invalid call starts an operation that other ranks never join, or throws the wrong
// error.
TEST_P(ProcessGroups, InvalidCallsThrowImmediately) {
  ranks([](ProcessGroup& group, const at::TensorOptions& here) {
    const auto x = at::full({group.size() + 1}, 1.0, here);
    EXPECT_ERROR(group.broadcast(x, group.size()), invalid_argument, "0 to");
    EXPECT_ERROR(group.send(x, -1), invalid_argument, "0 to");
    EXPECT_ERROR(group.reduce_scatter(x), invalid_argument, "a multiple of");
    EXPECT_ERROR(group.all_gather_into_tensor(x, x), invalid_argument, "times the number of ranks");
    EXPECT_ERROR(group.scatter(x, {x}, 0), invalid_argument, "parts on rank");
    EXPECT_ERROR(group.all_to_all({x}, {x}), invalid_argument, "");
  });
}

std::string name_of(const testing::TestParamInfo<ProcessGroups::ParamType>& info) {
  const auto& [backend, size, memory] = info.param;
  return std::string(backend) + std::to_string(size) + (memory ? "memory" : "staged");
}

INSTANTIATE_TEST_SUITE_P(Cpu, ProcessGroups,
                         testing::Combine(testing::Values("cpu"), testing::Values(2, 4),
                                          testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Sim, ProcessGroups,
                         testing::Combine(testing::Values("sim"), testing::Values(2, 4),
                                          testing::Values(true)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Cpu, FourRanks,
                         testing::Combine(testing::Values("cpu"), testing::Values(4),
                                          testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Sim, FourRanks,
                         testing::Combine(testing::Values("sim"), testing::Values(4),
                                          testing::Values(true)),
                         name_of);

// Fails if host tensors reach a vendor's communication backend, which supports only the vendor's
// devices. The staged backend must handle host tensors.
TEST(ProcessGroupOfAVendor, HostTensorsAreStaged) {
  const auto names = registered_backends();
  if (std::find(names.begin(), names.end(), "sim") == names.end())
    GTEST_SKIP() << "this build has no simulator";
  set_accelerator("sim");
  register_backend("vendorcl", [](const auto& store, const GroupOptions& options) {
    return make_staged_backend(store, options);
  });
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  auto group =
      init_process_group({.backend = "vendorcl", .store = store, .rank = 0, .world_size = 1});
  EXPECT_EQ(group.backend_reason(), "");
  EXPECT_NE(group.c10d_group()->getBackend(c10::kCPU),
            group.c10d_group()->getBackend(get_accelerator().device_type()));
  auto other =
      init_process_group({.backend = "staged", .store = store, .rank = 0, .world_size = 1});
  EXPECT_EQ(other.c10d_group()->getBackend(c10::kCPU),
            other.c10d_group()->getBackend(get_accelerator().device_type()));
}

// Fails if the launcher's variables are misread, or a rank does not use the device that its local
// rank selects.
TEST(ProcessGroupOfProcesses, FromTheEnvironment) {
  for (const auto status : test::in_processes(4, [](int rank) {
         set_accelerator("cpu");
         auto group = init_process_group();
         EXPECT_EQ(group.rank(), rank);
         EXPECT_EQ(group.size(), 4);
         auto& accelerator = get_accelerator();
         EXPECT_EQ(accelerator.current_device(), rank < accelerator.device_count() ? rank : 0);
         EXPECT_EQ(group.backend_name(), accelerator.communication_backend_name());
         check_reductions(group, at::TensorOptions().dtype(at::kFloat));
         check_movements(group, at::TensorOptions().dtype(at::kFloat));
         group.barrier();
         if (rank == 0) test::wait_for_other_ranks();
       }))
    EXPECT_EQ(status, 0);
}

// Fails if the other ranks wait for a killed rank until the timeout, or are killed by SIGPIPE.
TEST(ProcessGroupOfProcesses, KilledRankIsAnError) {
  for (const bool memory : {true, false}) {
    const auto statuses = test::in_processes(2, [&](int rank) {
      set_accelerator("cpu");
      auto group =
          init_process_group({.timeout = std::chrono::seconds(600), .shared_memory = memory});
      auto x = at::full({1000}, 1.0);
      group.all_reduce(x);
      if (rank == 1) ::raise(SIGKILL);
      const auto before = std::chrono::steady_clock::now();
      const auto go_on = [&] {
        for (;;) group.all_reduce(x);
      };
      EXPECT_ERROR(go_on(), unavailable, "");
      // Only some of the writes go to a closed connection, so check directly that SIGPIPE is
      // ignored.
      EXPECT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_IGN);
      EXPECT_LT(std::chrono::steady_clock::now() - before,
                std::chrono::seconds(300));  // half of the timeout
    });
    EXPECT_EQ(statuses[0], 0) << memory;
    EXPECT_TRUE(WIFSIGNALED(statuses[1])) << memory;
  }
}

// Fails if ranks wait forever for a missing rank.
TEST(ProcessGroupOfProcesses, MissingRankIsATimeout) {
  const auto statuses = test::in_processes(2, [](int rank) {
    if (rank == 1) return;
    set_accelerator("cpu");
    EXPECT_ERROR(init_process_group({.timeout = std::chrono::seconds(2)}), timeout,
                 "init_process_group");
  });
  EXPECT_EQ(statuses, std::vector<int>({0, 0}));
}

// Fails if a program without a launcher cannot create a group, or incomplete launcher variables are
// accepted.
TEST(ProcessGroupWithoutLauncher, IsAGroupOfOne) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
    ::unsetenv(name);
  set_accelerator("cpu");
  auto group = init_process_group();
  auto x = at::full({2}, 3.0);
  group.all_reduce(x);
  group.barrier();
  expect_equal(group.all_gather(x), at::full({2}, 3.0));
  EXPECT_EQ(group.size(), 1);
  EXPECT_NE(group.shared_memory_reason(), "");
  EXPECT_ERROR(init_process_group({.world_size = 2}), invalid_argument,
               "RANK is neither set nor given in the options");
  EXPECT_ERROR(init_process_group({.rank = 2, .world_size = 2}), invalid_argument, "rank 2 of 2");
  EXPECT_ERROR(init_process_group({.rank = 0, .world_size = 2}), invalid_argument,
               "MASTER_ADDR is not set");
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  EXPECT_ERROR(init_process_group({.rank = 0, .world_size = 2}), invalid_argument,
               "MASTER_PORT is not set");
  EXPECT_ERROR(init_process_group({.backend = "nosuch"}), invalid_argument, "\"nosuch\"");
  ::setenv("WORLD_SIZE", "two", 1);
  EXPECT_ERROR(init_process_group(), invalid_argument, "WORLD_SIZE");
}

}  // namespace
}  // namespace anyaccel::comm
