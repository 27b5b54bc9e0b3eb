// Tests shared-memory collectives between threads and between processes.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "comm/shm/layout.h"
#include "unit/shm/shm_ranks.h"

namespace anyaccel::ops::shm {
namespace {

using std::chrono::milliseconds;

/// Calls every kind of collective with random sizes around the chunk size. All ranks use the same
/// seed, so each can compute the data of the others.
void work(Communicator& group, unsigned seed, int calls) {
  std::mt19937 random(seed);  // same on every rank
  const int size = group.size();
  for (int call = 0; call < calls; ++call) {
    const std::size_t count = random() % 4 == 0 ? random() % 8000 : random() % 300;
    const int kind = static_cast<int>(random() % 5);
    const int source = static_cast<int>(random() % static_cast<unsigned>(size));
    const auto value = [&](int rank, std::size_t i) {
      return static_cast<float>(
          (i * 7 + static_cast<std::size_t>(rank) * 13 + static_cast<std::size_t>(call)) % 1000);
    };
    std::vector<float> mine(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = value(group.rank(), i);
    const auto total = [&](std::size_t i) {
      float sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += value(rank, i);
      return sum;
    };
    if (kind == 0) {
      group.all_reduce(mine.data(), mine.data(), count, Kind::f32, Reduce::sum);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(mine[i], total(i)) << call;
    } else if (kind == 1) {
      std::vector<float> all(count * static_cast<std::size_t>(size));
      group.all_gather(mine.data(), all.data(), count * sizeof(float));
      for (int rank = 0; rank < size; ++rank)
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(all[static_cast<std::size_t>(rank) * count + i], value(rank, i)) << call;
    } else if (kind == 2) {
      const auto part = count / static_cast<std::size_t>(size);
      std::vector<float> out(part);
      group.reduce_scatter(mine.data(), out.data(), part, Kind::f32, Reduce::sum);
      for (std::size_t i = 0; i < part; ++i)
        ASSERT_EQ(out[i], total(static_cast<std::size_t>(group.rank()) * part + i)) << call;
    } else if (kind == 3) {
      group.broadcast(mine.data(), count * sizeof(float), source);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(mine[i], value(source, i)) << call;
    } else {
      group.barrier();
    }
  }
}

Options options(int rank, int size, milliseconds timeout = milliseconds(20000)) {
  return {.rank = rank, .size = size, .timeout = timeout, .chunk_bytes = 4096};
}

// Fails if a slot is written while another rank reads it. The thread sanitizer detects this as a
// race; otherwise, the results are wrong.
TEST(ShmComm, ThreadsGetCorrectResults) {
  for (const int size : {1, 2, 3}) {
    const auto memory = std::make_shared<Memory>(Memory::anonymous(bytes_for(options(0, size))));
    prepare(memory->data(), options(0, size), random_token());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        Communicator group(memory, options(rank, size));
        work(group, 5, 300);
        group.barrier();  // no rank leaves while others work
      });
    for (auto& thread : threads) thread.join();
  }
}

void run_processes(int size) {
  Meeting meeting(size);
  for (const auto child : start_ranks(size, [&](int rank) {
         auto connected = connect(options(rank, size), meeting.exchange(rank));
         if (!connected.communicator) throw std::runtime_error(connected.reason);
         work(*connected.communicator, 7, 300);
         connected.communicator->barrier();
         return ::testing::Test::HasFailure() ? 1 : 0;
       }))
    EXPECT_EQ(end_of(child), 0);
}

// Fails if another process cannot open the memory, or waiting ranks are not woken.
TEST(ShmComm, ProcessesGetCorrectResults) {
  run_processes(2);
  run_processes(4);  // more ranks than some machines have CPUs, so that waiting ranks sleep
}

// Fails if the comparison of the rounds' sequence numbers does not handle wraparound at 2^32.
TEST(ShmComm, RoundNumbersWrap) {
  EXPECT_TRUE(after(1, 0xffffffffU));
  EXPECT_FALSE(after(0xffffffffU, 1));
  EXPECT_FALSE(after(5, 5));
}

// Fails if ranks that call different reductions on the same number of elements do not get an error.
TEST(ShmComm, DifferentCallsAreErrors) {
  Meeting meeting(2);
  for (const auto child : start_ranks(2, [&](int rank) {
         auto group = connect(options(rank, 2), meeting.exchange(rank)).communicator;
         float data[4] = {};
         return code_of([&] {
           group->all_reduce(data, data, 4, Kind::f32, rank == 0 ? Reduce::sum : Reduce::min);
         });
       }))
    EXPECT_EQ(end_of(child), code_of(ErrorCode::invalid_argument));
}

/// Returns each rank's error message from `call(group, rank)`, or "" if it succeeded.
std::vector<std::string> errors_of(int size, const std::function<void(Communicator&, int)>& call) {
  const auto memory = std::make_shared<Memory>(Memory::anonymous(bytes_for(options(0, size))));
  prepare(memory->data(), options(0, size), random_token());
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::unique_ptr<Communicator>> groups;
  for (int rank = 0; rank < size; ++rank)
    groups.push_back(std::make_unique<Communicator>(memory, options(rank, size)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      try {
        call(*groups[place], rank);
      } catch (const Error& error) {
        errors[place] = error.code() == ErrorCode::invalid_argument ? error.what() : "another code";
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

// Fails if a rank does not call its idle function while it waits, or calls a function that has been
// removed.
TEST(ShmComm, CallsTheIdleFunctionWhileWaiting) {
  std::atomic<int> calls{0};
  const auto errors = errors_of(2, [&](Communicator& group, int rank) {
    float value = 1;
    if (rank == 0) {
      group.set_idle({[](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls});
      group.all_reduce(&value, &value, 1, Kind::f32, Reduce::sum);
      group.set_idle({});
    } else {
      // Wait only until the first call, because a rank that waits for a long time goes to sleep.
      while (calls == 0) std::this_thread::yield();
      group.all_reduce(&value, &value, 1, Kind::f32, Reduce::sum);
    }
    const int before = calls;
    for (int i = 0; i < 3; ++i) group.all_reduce(&value, &value, 1, Kind::f32, Reduce::sum);
    EXPECT_EQ(value, 16);
    EXPECT_EQ(calls, before);
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

// Fails if a broadcast succeeds although ranks specify different source ranks.
TEST(ShmComm, DifferentBroadcastSourcesAreErrors) {
  for (const int size : {2, 3}) {
    const auto errors = errors_of(size, [](Communicator& group, int rank) {
      char data[8] = {};
      group.broadcast(data, sizeof(data), rank == 0 ? 0 : 1);
    });
    for (const auto& text : errors) {
      EXPECT_NE(text.find("broadcast of 8 bytes from rank 0"), std::string::npos) << text;
      EXPECT_NE(text.find("broadcast of 8 bytes from rank 1"), std::string::npos) << text;
    }
  }
}

// Fails if the error about different calls does not describe both of them completely.
TEST(ShmComm, ErrorNamesBothCalls) {
  const auto errors = errors_of(2, [](Communicator& group, int rank) {
    float data[8] = {};
    if (rank == 0)
      group.all_reduce(data, data, 8, Kind::bf16, Reduce::max);
    else
      group.all_gather(data, std::vector<char>(8).data(), 4);
  });
  for (const auto& text : errors) {
    EXPECT_NE(text.find("all_reduce of 16 bytes as bfloat16 by max"), std::string::npos) << text;
    EXPECT_NE(text.find("all_gather of 4 bytes"), std::string::npos) << text;
  }
}

// Fails if an average of integers is truncated instead of rejected.
TEST(ShmComm, AveragesOfIntegersAreRejected) {
  const auto memory = std::make_shared<Memory>(Memory::anonymous(bytes_for(options(0, 1))));
  Communicator group(memory, options(0, 1));
  int data[2] = {1, 2};
  EXPECT_EQ(code_of([&] { group.all_reduce(data, data, 2, Kind::i32, Reduce::avg); }),
            code_of(ErrorCode::unsupported));
  EXPECT_EQ(code_of([&] { group.broadcast(data, 8, 1); }), code_of(ErrorCode::invalid_argument));
}

/// Makes every rank reduce until an error occurs, while `harm` kills or stops rank `victim`.
/// Returns the exit statuses of the other ranks.
std::vector<int> statuses_of_others(int size, int victim, milliseconds timeout,
                                    const std::function<void(pid_t)>& harm) {
  Meeting meeting(size);
  const auto children = start_ranks(size, [&](int rank) {
    auto group = connect(options(rank, size, timeout), meeting.exchange(rank)).communicator;
    std::vector<float> data(3000);
    return code_of([&] {
      for (;;) {
        group->all_reduce(data.data(), data.data(), data.size(), Kind::f32, Reduce::max);
        meeting.counter().fetch_add(1);
        if (rank == victim) std::this_thread::sleep_for(milliseconds(1));
      }
    });
  });
  while (meeting.counter().load() < 5) std::this_thread::sleep_for(milliseconds(1));
  harm(children[static_cast<std::size_t>(victim)]);
  std::vector<int> statuses;
  for (int rank = 0; rank < size; ++rank)
    if (rank != victim) statuses.push_back(end_of(children[static_cast<std::size_t>(rank)]));
  ::kill(children[static_cast<std::size_t>(victim)], SIGKILL);
  end_of(children[static_cast<std::size_t>(victim)]);
  return statuses;
}

// Fails if ranks wait for a dead peer until the timeout.
TEST(ShmComm, DeadPeerIsAnErrorBeforeTheTimeout) {
  const auto start = std::chrono::steady_clock::now();
  const auto statuses = statuses_of_others(3, 1, std::chrono::minutes(10),
                                           [](pid_t child) { ::kill(child, SIGKILL); });
  for (const int status : statuses) EXPECT_EQ(status, code_of(ErrorCode::unavailable));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// Fails if ranks wait forever for a live peer that does not respond.
TEST(ShmComm, StuckPeerIsATimeout) {
  for (const int status :
       statuses_of_others(3, 0, milliseconds(500), [](pid_t child) { ::kill(child, SIGSTOP); }))
    EXPECT_EQ(status, code_of(ErrorCode::timeout));
}

// Fails if a rank that leaves its group normally does not wake the others.
TEST(ShmComm, PeerThatLeftIsAnError) {
  Meeting meeting(2);
  const auto children = start_ranks(2, [&](int rank) {
    auto group = connect(options(rank, 2), meeting.exchange(rank)).communicator;
    group->barrier();
    if (rank == 1) return 0;
    const auto first = code_of([&] { group->barrier(); });
    // The group stays unusable, and later calls fail immediately.
    return code_of([&] { group->barrier(); }) == first ? first : 1;
  });
  EXPECT_EQ(end_of(children[0]), code_of(ErrorCode::unavailable));
  EXPECT_EQ(end_of(children[1]), 0);
}

// Fails if abort() does not end operations that are in progress, or does not affect later ones.
TEST(ShmComm, AbortEndsOperationsOfAllRanks) {
  Meeting meeting(3);
  const auto children = start_ranks(3, [&](int rank) {
    auto group = connect(options(rank, 3), meeting.exchange(rank)).communicator;
    std::thread aborting;
    if (rank == 0)
      aborting = std::thread([&] {
        std::this_thread::sleep_for(milliseconds(200));
        group->abort();
      });
    // Rank 2 never arrives.
    const auto code =
        rank == 2 ? code_of(ErrorCode::unavailable) : code_of([&] { group->barrier(); });
    if (aborting.joinable()) aborting.join();
    meeting.counter().fetch_add(1);
    while (meeting.counter().load() < 3) std::this_thread::sleep_for(milliseconds(1));
    return code_of([&] { group->barrier(); }) == code ? code : 1;
  });
  for (const auto child : children) EXPECT_EQ(end_of(child), code_of(ErrorCode::unavailable));
}

// Fails if a rank counts as dead although it contributed to the operation before it exited.
TEST(ShmComm, PeerThatExitsAfterContributingIsNotDead) {
  Meeting meeting(2);
  const auto children = start_ranks(2, [&](int rank) {
    auto mine = options(rank, 2);
    auto& counter = meeting.counter();
    // Rank 1 contributes to the barrier and exits just before rank 0 checks for dead peers.
    if (rank == 0)
      mine.before_look = [&] {
        counter.store(1);
        std::this_thread::sleep_for(milliseconds(300));
      };
    auto group = connect(mine, meeting.exchange(rank)).communicator;
    if (rank == 1)
      while (counter.load() == 0) std::this_thread::sleep_for(milliseconds(1));
    const auto code = code_of([&] { group->barrier(); });
    if (rank == 1) ::_exit(code);  // exit without leaving the group
    return code;
  });
  EXPECT_EQ(end_of(children[1]), 0);
  EXPECT_EQ(end_of(children[0]), 0);
}

// Fails if a forked child can act as its parent's rank.
TEST(ShmComm, ForkedChildIsRejected) {
  const auto memory = std::make_shared<Memory>(Memory::anonymous(bytes_for(options(0, 1))));
  Communicator group(memory, options(0, 1));
  const auto child = start_ranks(1, [&](int) { return code_of([&] { group.barrier(); }); });
  EXPECT_EQ(end_of(child[0]), code_of(ErrorCode::invalid_state));
  group.barrier();
}

}  // namespace
}  // namespace anyaccel::ops::shm
