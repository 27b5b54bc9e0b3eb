// Tests jobs with agents: those run by the agent of one rank, and those run by runners that start
// agents.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "unit/launch/run_job_fixture.h"

namespace anyaccel::launch {
namespace {

using testing::HasSubstr;

/// Runs the agent of one rank in a child process and sends it `signal`, as an MPI or Slurm launcher
/// would.
int run_agent(const Job& job, const std::string& ready, int signal, int ends_with = -1) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_job(job, {.ends_with = ends_with, .one_rank = true}));
  while (!std::filesystem::exists(ready)) ::usleep(1000);
  if (signal != 0) ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return exit_code_of(status);
}

// Fails if an agent that is stopped by its MPI or Slurm launcher returns a failure. That launcher
// would then kill other ranks that are still saving.
TEST_F(RunJob, StoppedAgentReturnsSuccess) {
  for (const int signal : {SIGALRM, SIGQUIT}) {
    const auto one =
        job({"trap 'echo saved > $FOLDER/saved; exit 5' TERM; touch $FOLDER/up; while :; do sleep "
             "0.01; done"});
    EXPECT_EQ(run_agent(one, folder_ + "/up", signal), 0);
    EXPECT_EQ(file("saved"), "saved\n");
    std::filesystem::remove(folder_ + "/up");
    std::filesystem::remove(folder_ + "/saved");
  }
}

// Fails if a user signal from a scheduler terminates the agent instead of reaching its rank.
TEST_F(RunJob, UserSignalsReachTheRank) {
  const auto one = job({"trap 'exit 6' USR1; touch $FOLDER/up; while :; do sleep 0.01; done"});
  EXPECT_EQ(run_agent(one, folder_ + "/up", SIGUSR1), 6);
}

// Fails if an agent outlives its parent.
TEST_F(RunJob, AgentEndsWithItsParent) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::pause();
    ::_exit(0);
  }
  const int end = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  if (end < 0) GTEST_SKIP() << "Linux before 5.3";
  const auto one = job({"touch $FOLDER/up; sleep 1000"});
  const pid_t killer = ::fork();
  if (killer == 0) {
    while (!std::filesystem::exists(folder_ + "/up")) ::usleep(1000);
    ::kill(parent, SIGKILL);
    ::_exit(0);
  }
  EXPECT_EQ(run_agent(one, folder_ + "/up", 0, end), 128 + SIGTERM);
  ::close(end);
  ::waitpid(killer, nullptr, 0);
  ::waitpid(parent, nullptr, 0);
}

/// A job in which the launcher starts a runner that executes `script`.
Job runner_of(const std::string& folder, const std::string& script) {
  Job out{.input = RankInput::nothing, .own_group = true, .end_signal = SIGALRM};
  JobRank rank{.host = "the runner"};
  rank.environment = {{"FOLDER", folder}};
  rank.command = {"sh", "-c", script};
  out.ranks.push_back(rank);
  return out;
}

// Fails if the runner's exit code is returned instead of the one that the agent reports, or the
// runner continues after a rank has failed.
TEST_F(RunJob, AgentReportDecidesTheExitCode) {
  const auto report = format_report({3, 9 << 8});
  const auto one =
      runner_of(folder_, "printf 'half a line of rank 1: " + report +
                             "' >&2; trap 'exit 1' ALRM; while :; do sleep 0.01; done");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(one, {.output = {.reports = true}}), 9);
  said_ = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said_, HasSubstr("rank 3 failed first: exit code 9"));
  EXPECT_THAT(said_, testing::Not(HasSubstr("report")));
}

// Fails if a runner that waits forever for a host is not stopped, or the wrong ranks are reported
// as missing. A job whose ranks have all started must not be stopped.
TEST_F(RunJob, RankDoesNotStart) {
  const auto started = [](int rank) { return format_report({rank, kStarted}); };
  auto one = runner_of(
      folder_, "printf '" + started(1) + "' >&2; trap 'exit 1' ALRM; while :; do sleep 0.01; done");
  one.start_limit = 1;
  one.rank_hosts = {"a", "b"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(one, {.output = {.reports = true}}), 255);
  said_ = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      said_,
      HasSubstr("the runner has not started rank 0 on a, and no other rank has started for 1 s"));
  EXPECT_THAT(said_, testing::Not(HasSubstr("report")));
  one.ranks.front().command.back() =
      "printf '" + started(1) + started(0) + "' >&2; sleep 1.5; exit 3";
  EXPECT_EQ(run_job(one, {.output = {.reports = true}}), 3);
}

// Fails if a runner killed by a signal does not count as a failure, or the signal is not reported.
TEST_F(RunJob, RunnerIsKilled) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(runner_of(folder_, "kill -KILL $$"), {.output = {.reports = true}}), 137);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the runner failed first: signal 9"));
}

// Fails if an agent does not terminate its ranks after heartbeats stop, or terminates them while
// heartbeats still arrive. The guard of a job with RankInput::held must send several heartbeats per
// second.
TEST_F(RunJob, AgentEndsWithoutHeartbeats) {
  auto above = job({"exec cat > $FOLDER/signs"});
  above.input = RankInput::held;
  above.silence = 1;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[1]);
    auto below = job({kForever});
    below.input = RankInput::nothing;
    ::_exit(run_job(below, {.agent = true, .silence = 1}));
  }
  ::close(ends[0]);
  using Clock = std::chrono::steady_clock;
  Clock::duration longest{0};
  auto last = Clock::now();
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(::write(ends[1], ".", 1), 1);
    ::usleep(50000);
    longest = std::max(longest, Clock::now() - last);
    last = Clock::now();
  }
  int status = -1;
  const auto ended = ::waitpid(agent, &status, WNOHANG);
  // On a busy machine, this process may have sent heartbeats too late. The agent may then terminate
  // its ranks.
  if (longest < std::chrono::milliseconds(500)) {
    EXPECT_EQ(ended, 0) << "ended although heartbeats arrived";
  }
  if (ended == 0) {
    EXPECT_EQ(::waitpid(agent, &status, 0), agent);
  }
  EXPECT_EQ(exit_code_of(status), 128 + SIGTERM);
  ::close(ends[1]);

  const pid_t launcher = ::fork();
  if (launcher == 0) ::_exit(run_job(above, {}));
  while (file("signs").size() < 3) ::usleep(10000);
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(::waitpid(launcher, &status, 0), launcher);
}

}  // namespace
}  // namespace anyaccel::launch
