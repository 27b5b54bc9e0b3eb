#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <thread>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "anyaccel/registry.h"

namespace anyaccel::comm {
namespace {

using Tensors = std::vector<at::Tensor>;

class TwoDevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto names = registered_backends();
    if (std::find(names.begin(), names.end(), "sim") == names.end())
      GTEST_SKIP() << "this build has no simulator";
    set_accelerator("sim");
  }
};

void check_collectives(c10d::ProcessGroup& group, int rank, const at::TensorOptions& here) {
  // An operation waits for work that was queued before it, and work queued after wait() sees its
  // result.
  auto x = at::full({1000}, 1.0, here);
  for (int i = 0; i < 10; ++i) x.add_(rank);
  Tensors sum{x};
  group.allreduce(sum)->wait();
  EXPECT_EQ(x.mul(2).sum().item<double>(), 2 * 1000 * 12);

  Tensors from_one{at::full({3}, 5.0 + rank, here)};
  c10d::BroadcastOptions root;
  root.rootRank = 1;
  group.broadcast(from_one, root)->wait();
  EXPECT_EQ(from_one[0].sum().item<double>(), 18);

  std::vector<Tensors> all{{at::empty({2}, here), at::empty({2}, here)}};
  Tensors mine{at::full({2}, 1.0 + rank, here)};
  group.allgather(all, mine)->wait();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(all[0][i].sum().item<double>(), 2 * (1 + i));

  Tensors part{at::empty({2}, here)};
  std::vector<Tensors> whole{{at::full({2}, 1.0, here), at::full({2}, 3.0, here)}};
  group.reduce_scatter(part, whole)->wait();
  EXPECT_EQ(part[0].sum().item<double>(), rank == 0 ? 4 : 12);

  Tensors message{rank == 0 ? at::arange(5, here) : at::empty({5}, here)};
  (rank == 0 ? group.send(message, 1, 7) : group.recv(message, 0, 7))->wait();
  EXPECT_EQ(message[0].sum().item<double>(), 10);
  group.barrier()->wait();
}

// Fails if ranks in one process use each other's device or stream, or an operation does not wait
// for work that was queued before it.
TEST_F(TwoDevicesTest, EachRankHasItsOwnDevice) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  const auto run = [&](int rank) {
    auto& accelerator = get_accelerator();
    accelerator.set_device(rank);
    const auto group = make_process_group(
        "", store, {.rank = rank, .size = 2, .timeout = std::chrono::seconds(60)});
    check_collectives(*group, rank,
                      at::TensorOptions().dtype(at::kFloat).device(accelerator.torch_device()));
    EXPECT_EQ(accelerator.current_device(), rank);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

}  // namespace
}  // namespace anyaccel::comm
