#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::comm {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// Runs `body` on two ranks, each a thread, that share a store.
template <typename Body>
void two_ranks(const Body& body) {
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  std::thread other([&] {
    body(store, GroupOptions{.rank = 1, .size = 2, .timeout = std::chrono::seconds(60)});
  });
  body(store, GroupOptions{.rank = 0, .size = 2, .timeout = std::chrono::seconds(60)});
  other.join();
}

class GroupsTest : public testing::Test {
 protected:
  GroupsTest() { set_accelerator("cpu"); }
  test::ScopedEnv no_ccl_{"ANYACCEL_CCL",
                          "off"};  // oneCCL requires one process per rank; these ranks are threads
};

// Fails if a C++ program cannot create a process group with the accelerator's default backend.
TEST_F(GroupsTest, ProcessGroupOfTheAccelerator) {
  two_ranks([](const StorePtr& store, const GroupOptions& options) {
    const auto group = make_process_group("", store, options);
    std::vector<at::Tensor> tensors{at::full({5}, 1.0 + options.rank)};
    group->allreduce(tensors)->wait();
    EXPECT_EQ(tensors[0].sum().item<double>(), 15);
    group->barrier()->wait();
  });
}

// Fails if wait() does not throw the error of a failed operation, with its code.
TEST_F(GroupsTest, TimeoutHasAnErrorCode) {
  two_ranks([](const StorePtr& store, const GroupOptions& options) {
    const auto backend = make_staged_backend(store, options);
    backend->setTimeout(std::chrono::milliseconds(300));
    std::vector<at::Tensor> tensors{at::full({2}, 1.0)};
    if (options.rank == 0) {
      const auto work = backend->allreduce(tensors, {});
      EXPECT_ERROR(work->wait(), timeout, "did not respond within 300 ms");
      store->set("late", std::vector<std::uint8_t>{1});
    } else {
      store->wait({"late"});
    }
  });
}

// Fails if an invalid call starts an operation that the other rank never joins.
TEST_F(GroupsTest, InvalidCallsThrowImmediately) {
  two_ranks([](const StorePtr& store, const GroupOptions& options) {
    const auto backend = make_staged_backend(store, options);
    std::vector<at::Tensor> shorts{at::full({2}, 1, at::kShort)};
    EXPECT_ERROR(backend->allreduce(shorts, {}), unsupported, "int16");
    EXPECT_ERROR(backend->send(shorts, 2, 0), invalid_argument, "0 to 1");
    auto small = at::full({2}, 1.0);
    auto large = at::full({5}, 1.0);
    EXPECT_ERROR(backend->_allgather_base(large, small, {}), invalid_argument, "5 and 2");
    std::vector<at::Tensor> none;
    EXPECT_ERROR(backend->broadcast(none, {}), invalid_argument, "wrong number of tensors");
    backend->barrier({})->wait();
  });
}

// Fails if a registered factory is not used, or an unknown backend name is accepted.
TEST_F(GroupsTest, NamesAndFactories) {
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  const auto names = backend_names();
  EXPECT_TRUE(std::find(names.begin(), names.end(), kStaged) != names.end());
  for (const char* host : {"ccl", "gloo"})
    EXPECT_TRUE(std::find(names.begin(), names.end(), host) != names.end());
  EXPECT_ERROR(make_backend("nosuch", store, {}), invalid_argument, kStaged);
  int made = 0;
  register_backend("vendorcl", [&](const StorePtr& given, const GroupOptions& options) {
    ++made;
    return make_staged_backend(given, options);
  });
  EXPECT_EQ(make_backend("vendorcl", store, {})->getSize(), 1);
  EXPECT_EQ(made, 1);
  EXPECT_ERROR(make_staged_backend(store, {.rank = 3, .size = 2}), invalid_argument, "rank 3 of 2");
}

}  // namespace
}  // namespace anyaccel::comm
