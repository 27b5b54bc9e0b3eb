// Suite "collectives": collectives between two processes with one device each, and between two
// devices of one process.
#include <ATen/ops/full.h>
#include <ATen/ops/real.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "anyaccel/comm.h"
#include "support.h"

namespace anyaccel::conformance {

namespace {

using Tensors = std::vector<at::Tensor>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr int kRanks = 2;
constexpr auto kPatience = std::chrono::seconds(30);

/// A rank in a case: its accelerator, store, rank number and process group.
struct Rank {
  Accelerator& accelerator;
  StorePtr store;
  int number;
  c10::intrusive_ptr<c10d::ProcessGroup> group;

  int other() const { return 1 - number; }
  at::Tensor tensor(double value, std::int64_t count = 5,
                    c10::ScalarType dtype = c10::kFloat) const {
    return filled(accelerator, value, count, dtype);
  }
  void tell(const std::string& key) const { store->set(key, std::vector<std::uint8_t>{1}); }
  void await(const std::string& key) const { store->wait({key}, kPatience); }
  bool knows(const std::string& key) const { return store->check({key}); }
};

/// Runs `body` as one rank of a process group with the accelerator's communication backend.
void as_rank(Accelerator& accelerator, int number, const StorePtr& store,
             const std::function<void(const Rank&)>& body) {
  const DeviceScope scope(accelerator);
  accelerator.set_device(number % accelerator.device_count());
  const comm::GroupOptions options{.rank = number, .size = kRanks, .timeout = kPatience};
  const auto group = feature([&] { return comm::make_process_group("", store, options); });
  const Rank rank{accelerator, store, number, group};
  const auto end = "end of " + std::to_string(number);
  try {
    body(rank);
    accelerator.synchronize();
  } catch (...) {
    rank.tell(end);
    throw;
  }
  // Wait until both ranks are done: a rank that exits early would break collectives that the other
  // rank still waits for.
  rank.tell(end);
  rank.await("end of " + std::to_string(rank.other()));
}

/// Runs `body` as the rank of this process.
void in_both_processes(Accelerator& accelerator, const std::function<void(const Rank&)>& body) {
  as_rank(accelerator, process_number(),
          c10::make_intrusive<c10d::FileStore>(meeting_file(), kRanks), body);
}

void expect_all(const at::Tensor& tensor, double want, const std::string& what) {
  for (const double value : values(tensor.reshape({-1}))) expect_equal(value, want, what);
}

void all_reduce(const Rank& rank, const at::Tensor& tensor,
                c10d::ReduceOp::RedOpType kind = c10d::ReduceOp::SUM) {
  Tensors tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = kind;
  rank.group->allreduce(tensors, options)->wait();
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(collectives, all_reduce_sums_over_all, required, false, kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    const auto x = rank.tensor(rank.number + 1);
    all_reduce(rank, x);
    expect_all(x, 3, "the sum of 1 and 2 across two processes");
    expect(rank.accelerator.on_accelerator(x), "the result is not on the accelerator");
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, all_reduce_takes_the_operation_asked_for, required, false,
                          kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    const auto largest = rank.tensor(rank.number + 2), least = rank.tensor(rank.number + 2),
               product = rank.tensor(rank.number + 2);
    all_reduce(rank, largest, c10d::ReduceOp::MAX);
    all_reduce(rank, least, c10d::ReduceOp::MIN);
    all_reduce(rank, product, c10d::ReduceOp::PRODUCT);
    expect_all(largest, 3, "the maximum of 2 and 3");
    expect_all(least, 2, "the minimum of 2 and 3");
    expect_all(product, 6, "2 * 3");
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, reducible_types_reduce, required, false, kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    for (const auto& [type, support] : rank.accelerator.dtype_table()) {
      if (!support.reducible || type == c10::kBool) continue;
      const std::string what = std::string("all-reduce of ") + dtype_name(type);
      try {
        const auto x =
            to_device(rank.accelerator, at::full({7}, rank.number + 1, c10::kFloat).to(type));
        all_reduce(rank, x);
        const auto host = x.to(c10::kCPU);
        expect_all(c10::isComplexType(type) ? at::real(host) : host, 3, what);
      } catch (const Error& error) {
        fail(what + " is declared as supported but rejected: " + error.what());
      } catch (const c10::Error& error) {
        fail(what + " is declared as supported but rejected: " + error.what_without_backtrace());
      }
    }
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, whole_numbers_are_reduced_exactly, required, false, kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    if (!rank.accelerator.dtype_support(c10::kInt).reducible) skip("int32 is not reducible");
    const auto x =
        rank.tensor(16'777'217, 5, c10::kInt);  // the first integer that float32 cannot represent
    all_reduce(rank, x);
    expect_all(x, 33'554'434, "the sum of two large integers");
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, large_tensors_are_reduced_whole, required, false, kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    const auto host = host_sequence(1'000'003).remainder(1000);
    const auto x = to_device(rank.accelerator, host.mul(rank.number + 1));
    all_reduce(rank, x);
    expect(x.to(c10::kCPU).equal(host.mul(3)), "wrong sum of a million elements");
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, all_gather_keeps_the_order_of_ranks, required, false,
                          kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    std::vector<Tensors> outputs{{rank.tensor(0), rank.tensor(0)}};
    Tensors inputs{rank.tensor(10 + rank.number)};
    rank.group->allgather(outputs, inputs)->wait();
    for (int i = 0; i < kRanks; ++i)
      expect_all(outputs[0][i], 10 + i, "the values gathered from rank " + std::to_string(i));
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, broadcast_gives_the_roots_values, required, false, kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    for (int root = 0; root < kRanks; ++root) {
      Tensors tensors{rank.tensor(20 + rank.number)};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      rank.group->broadcast(tensors, options)->wait();
      expect_all(tensors[0], 20 + root,
                 "the values that rank " + std::to_string(root) + " broadcast");
    }
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, reduce_scatter_gives_each_rank_its_part, required, false,
                          kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    Tensors outputs{rank.tensor(0)};
    std::vector<Tensors> inputs{{rank.tensor(1 + rank.number), rank.tensor(100 + rank.number)}};
    rank.group->reduce_scatter(outputs, inputs)->wait();
    expect_all(outputs[0], rank.number == 0 ? 3 : 201,
               "the sum of chunk " + std::to_string(rank.number));
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, messages_arrive_whole_and_in_order, required, false,
                          kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    for (int i = 0; i < 3; ++i) {
      Tensors sent{rank.tensor(30 + i, 1001)}, received{rank.tensor(0, 1001)};
      if (rank.number == 0) {
        rank.group->send(sent, 1, /*tag=*/0)->wait();
        continue;
      }
      rank.group->recv(received, 0, /*tag=*/0)->wait();
      expect_all(received[0], 30 + i, "message " + std::to_string(i));
    }
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, barrier_waits_for_all, required, false, kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    rank.group->barrier()->wait();  // the first barrier may open connections
    if (rank.number == 1) {
      sleep_ms(150);
      rank.tell("rank 1 came");
    }
    rank.group->barrier()->wait();
    expect(rank.knows("rank 1 came"), "the barrier returned before all ranks arrived");
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, work_before_and_after_is_in_stream_order, required, false,
                          kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    const auto x = rank.tensor(0, 1000), y = rank.tensor(0, 1000);
    y.copy_(x.fill_(0).mul(1));  // the first run of an op may synchronize
    rank.accelerator.synchronize();
    queue_work(rank.accelerator, 60);
    x.fill_(rank.number + 1);
    all_reduce(rank, x);
    y.copy_(x);
    expect_all(y, 3, "the sum of values computed immediately before");
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, missing_rank_is_an_error_and_no_hang, required, false,
                          kRanks) {
  in_both_processes(accelerator, [](const Rank& rank) {
    rank.group->barrier()->wait();
    if (rank.number == 1) return rank.await("rank 0 gave up");
    // Reduce the timeout only now, because creating the group and its connections may take longer.
    rank.group->getBackend(rank.accelerator.device_type())->setTimeout(std::chrono::seconds(1));
    bool failed = false;
    try {
      all_reduce(rank, rank.tensor(1));
      rank.accelerator.synchronize();
    } catch (const std::exception&) {
      failed = true;
    }
    rank.tell("rank 0 gave up");
    expect(failed, "an all-reduce with a missing rank completed without an error");
  });
}

ANYACCEL_CONFORMANCE_CASE(collectives, devices_of_one_process_reduce, recommended, true) {
  need_separate_devices(accelerator, kRanks);
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  on_threads(kRanks, [&](int number) {
    as_rank(accelerator, number, store, [](const Rank& rank) {
      const auto x = rank.tensor(rank.number + 1);
      expect_equal(static_cast<int>(x.device().index()), rank.number,
                   "the device of a rank's tensor");
      all_reduce(rank, x);
      expect_all(x, 3, "the sum of 1 and 2 across two devices");
    });
  });
}

}  // namespace anyaccel::conformance
