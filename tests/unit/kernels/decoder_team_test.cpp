// Tests the team of threads that executes a decoder pass, including work that only one thread does.
#include "kernels/common/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace anyaccel::ops {
namespace {

/// Like run_team(), but uses std::thread, because this program does not link an OpenMP runtime.
/// Returns the exception that the team stored after a function in alone() threw it.
template <typename Function>
std::exception_ptr run_threads(int threads, const Function& function) {
  TeamShared shared;
  const auto run = [&](int thread) {
    Team team(shared, thread, threads);
    function(team);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& thread : others) thread.join();
  return shared.failure;
}

// Fails if a task is lost or done twice, or a thread continues before all tasks are done.
TEST(InferenceTeam, TasksRunOnceBeforeAnyThreadContinues) {
  for (const int threads : {1, 2, 5}) {
    std::atomic<int> done{0}, early{0};
    run_threads(threads, [&](Team& team) {
      for (int round = 1; round <= 50; ++round) {
        team.tasks(13, [&](std::int64_t) { ++done; });
        if (done < 13 * round) ++early;
      }
    });
    EXPECT_EQ(done, 13 * 50);
    EXPECT_EQ(early, 0);
  }
}

// Fails if alone() does not run its function exactly once on the thread that started the team, or
// the other threads do not see the result.
TEST(InferenceTeam, AloneRunsOnceAndItsResultIsVisible) {
  int value = 0;
  std::atomic<int> wrong{0};
  const auto caller = std::this_thread::get_id();
  run_threads(3, [&](Team& team) {
    for (int round = 1; round <= 100; ++round) {
      const bool well =
          team.alone([&] { value += std::this_thread::get_id() == caller ? 1 : 1000; });
      if (!well || value != round) ++wrong;
      team.tasks(3, [](std::int64_t) {});
    }
  });
  EXPECT_EQ(value, 100);
  EXPECT_EQ(wrong, 0);
}

// Fails if an exception in alone() terminates the process, leaves other threads waiting, or does
// not reach the caller.
TEST(InferenceTeam, ErrorStopsAllThreadsAndReachesTheCaller) {
  for (const int threads : {1, 3}) {
    std::atomic<int> told{0}, again{0};
    const auto pass = [&](Team& team) {
      for (int i = 0; i < 20; ++i)
        if (!team.alone([] {})) ++again;
      if (!team.alone([] { throw std::runtime_error("a rank has died"); })) ++told;
      team.alone([&] { ++again; });
    };
    EXPECT_TRUE(run_threads(threads, pass));
    EXPECT_EQ(told, threads);
    EXPECT_EQ(again, 0);
  }
  const auto fails = [](Team& team) {
    team.alone([] { throw std::runtime_error("a rank has died"); });
  };
  EXPECT_THROW(run_team(1, fails), std::runtime_error);
}

}  // namespace
}  // namespace anyaccel::ops
