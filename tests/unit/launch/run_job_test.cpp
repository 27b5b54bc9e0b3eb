#include "launch/run_job.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launch/guard.h"
#include "launch/process_tree.h"

namespace anyaccel::launch {
namespace {

using testing::HasSubstr;

class RunJob : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "launch_run_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    EXPECT_TRUE(descendants(::getpid()).empty());
    std::filesystem::remove_all(folder_);
  }

  /// A job in which each rank is a shell that executes one of the scripts.
  Job job(const std::vector<std::string>& scripts) const {
    Job out;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      JobRank rank{.rank = static_cast<int>(i), .host = "here"};
      rank.environment = {{"RANK", std::to_string(i)}, {"FOLDER", folder_}};
      rank.command = {"sh", "-c", scripts[i]};
      out.ranks.push_back(rank);
    }
    return out;
  }
  int run(const std::vector<std::string>& scripts, const RunSettings& settings = {}) {
    testing::internal::CaptureStderr();
    const int code = run_job(job(scripts), settings);
    said_ = testing::internal::GetCapturedStderr();
    return code;
  }
  std::string file(const char* name) const {
    std::ifstream stream(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string folder_, said_;
};

constexpr const char* kForever = "exec sleep 1000";

// Fails if a rank does not receive its variables, or a successful job does not return 0.
TEST_F(RunJob, Succeeds) {
  EXPECT_EQ(run({"echo $RANK > $FOLDER/a", "echo $RANK > $FOLDER/b"}), 0);
  EXPECT_EQ(file("a") + file("b"), "0\n1\n");
  EXPECT_EQ(said_, "");
}

// Fails if other ranks keep running after one rank has failed, or the failed rank's exit code or
// last output is lost.
TEST_F(RunJob, FailureEndsAllRanks) {
  EXPECT_EQ(run({kForever, "echo the reason >&2; exit 3"}), 3);
  EXPECT_THAT(
      said_,
      HasSubstr("rank 1 on here failed first: exit code 3; its last lines:\n  | the reason\n"));
}

// Fails if a rank that is killed by a signal counts as a success, as in DeepSpeed's launcher.
TEST_F(RunJob, SignalGives128PlusItsNumber) {
  EXPECT_EQ(run({"kill -SEGV $$", kForever}), 128 + SIGSEGV);
  EXPECT_THAT(said_, HasSubstr("rank 0 on here failed first: signal 11 ("));
}

// Fails if a process survives because it ignores SIGTERM, or because it moved to another session
// and its parent has exited.
TEST_F(RunJob, NoProcessSurvivesAFailure) {
  EXPECT_EQ(run({"trap '' TERM; (setsid sh -c 'trap \"\" TERM; touch $FOLDER/up; sleep 1000' &) ; "
                 "sleep 1000",
                 "until [ -e $FOLDER/up ]; do sleep 0.01; done; exit 4"}),
            4);
}

// Fails if processes that a successful job leaves behind keep running or are not reported.
TEST_F(RunJob, NoProcessSurvivesSuccess) {
  EXPECT_EQ(run({"setsid sleep 1000 > /dev/null 2>&1 & exit 0", "exit 0"}), 0);
  EXPECT_THAT(said_, HasSubstr("processes left behind and ended: 1"));
}

// Fails if the failure that is reported first is not the earliest one. The guard is stopped while
// both ranks fail, so it must determine their order from kernel data.
TEST_F(RunJob, EarliestFailureIsReported) {
  const std::string guard = "$(cut -d' ' -f4 /proc/$$/stat)";
  for (const int first : {0, 1}) {
    std::filesystem::remove(folder_ + "/first");
    // The later rank exits once the earlier one is a zombie. The guard resumes once both are
    // zombies.
    const std::string early =
        "echo $$ > $FOLDER/tmp; kill -STOP " + guard + "; mv $FOLDER/tmp $FOLDER/first; exit 11";
    const std::string late =
        "until [ -e $FOLDER/first ]; do sleep 0.01; done; until grep -q '(sh) Z' /proc/$(cat "
        "$FOLDER/first)/stat; do "
        "sleep 0.01; done; "
        "(setsid sh -c \"until grep -q '(sh) Z' /proc/$$/stat; do sleep 0.01; done; kill -CONT " +
        guard + "\" > /dev/null 2>&1 &); exit 12";
    EXPECT_EQ(run(first == 0 ? std::vector{early, late} : std::vector{late, early}), 11) << said_;
  }
}

// Fails if a missing program is reported like a program that failed, without the cause.
TEST_F(RunJob, MissingProgram) {
  auto one = job({""});
  one.ranks[0].command = {"/no/such/program"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(one, {}), 127);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("cannot run /no/such/program: No such file"));
}

// Fails if a rank inherits a variable that must not be passed on.
TEST_F(RunJob, UnsetVariables) {
  ::setenv("LAUNCH_TEST_GONE", "1", 1);
  auto one = job({"echo ${LAUNCH_TEST_GONE-unset} > $FOLDER/a"});
  one.unset = {"LAUNCH_TEST_GONE"};
  EXPECT_EQ(run_job(one, {}), 0);
  EXPECT_EQ(file("a"), "unset\n");
}

/// Calls run_job() in a child process and sends it `signal`, as a user would.
int run_in_child(const Job& job, const std::string& ready, int signal) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_job(job, {}));
  while (!std::filesystem::exists(ready)) ::usleep(1000);
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return exit_code_of(status);
}

// Fails if a signal to the launcher does not reach the ranks, or the ranks do not get time to shut
// down gracefully.
TEST_F(RunJob, SignalsAreForwarded) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::filesystem::remove(folder_ + "/up");
    const auto one =
        job({"trap 'echo saved > $FOLDER/saved; exit 0' INT TERM HUP; touch $FOLDER/up; while :; "
             "do sleep 0.01; done"});
    EXPECT_EQ(run_in_child(one, folder_ + "/up", signal), 128 + signal);
    EXPECT_EQ(file("saved"), "saved\n");
    std::filesystem::remove(folder_ + "/saved");
  }
}

// Fails if a signal to the guard is lost. Also fails if a signal that a scheduler sends to both the
// launcher and the guard counts as two signals, because a second signal would kill the ranks.
TEST_F(RunJob, SignalsToTheGuardAreForwarded) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    for (const auto& order : {std::vector{'g'}, std::vector{'g', 'l'}, std::vector{'l', 'g'}}) {
      const auto one =
          job({"trap 'sleep 0.3; echo saved > $FOLDER/saved; exit 0' INT TERM HUP QUIT;"
               "cut -d' ' -f4 /proc/$$/stat > $FOLDER/tmp; mv $FOLDER/tmp $FOLDER/up; while :; do "
               "sleep 0.01; done"});
      const pid_t child = ::fork();
      if (child == 0) ::_exit(run_job(one, {}));
      while (!std::filesystem::exists(folder_ + "/up")) ::usleep(1000);
      const pid_t guard = std::stoi(file("up"));
      for (const char target : order) {
        ::kill(target == 'g' ? guard : child, signal);
        ::usleep(50000);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(exit_code_of(status), 128 + signal);
      EXPECT_EQ(file("saved"), "saved\n") << signal << ", " << order.size();
      std::filesystem::remove(folder_ + "/up");
      std::filesystem::remove(folder_ + "/saved");
    }
}

// Fails if ranks outlive a killed launcher. This process is their subreaper, so it becomes their
// parent.
TEST_F(RunJob, NoProcessSurvivesAKilledLauncher) {
  const auto one =
      job({"trap '' TERM INT HUP; (setsid sleep 1000 > /dev/null 2>&1 &); touch $FOLDER/up; sleep "
           "1000"});
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  EXPECT_EQ(run_in_child(one, folder_ + "/up", SIGKILL), 128 + SIGKILL);
  // All surviving processes are now children of this process, which waits until they exit. If one
  // keeps running, the test times out.
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
}

// Fails if a killed guard leaves ranks running, or processes that the ranks have started.
TEST_F(RunJob, NoProcessSurvivesAKilledGuard) {
  EXPECT_EQ(run({"(setsid sleep 1000 > /dev/null 2>&1 &); kill -KILL $(cut -d' ' -f4 "
                 "/proc/$$/stat); sleep 1000"}),
            128 + SIGKILL);
  EXPECT_THAT(said_, HasSubstr("was killed"));
}

// Fails if ranks run before the launcher handles signals. A signal at that time would end the
// launcher without an error message.
TEST_F(RunJob, NoRankRunsBeforeTheStart) {
  const auto one = job({"touch $FOLDER/up"});
  {
    const Guard guard(one, {{}}, "");
    // A correct guard sleeps until it gets the start message. A defective guard sleeps until its
    // rank exits, or has exited itself.
    const auto waits = [&] {
      std::ifstream stat("/proc/" + std::to_string(guard.process()) + "/stat");
      std::string word;
      stat >> word >> word >> word;
      return word == "S" || word == "Z";
    };
    for (int i = 0; i < 3; ::usleep(10000)) i = waits() ? i + 1 : 0;
    EXPECT_TRUE(descendants(guard.process()).empty());
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/up"));
}

// Fails if a signal that arrives before the ranks start is mistaken for the start message and lost.
TEST_F(RunJob, SignalBeforeTheStartIsNotLost) {
  const auto one = job({"trap 'exit 3' TERM; touch $FOLDER/up; while :; do sleep 0.01; done"});
  Guard guard(one, {{}}, "");
  Guard::forward(guard.link(), SIGTERM, false);
  guard.start();
  const auto message = guard.receive();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, GuardMessage::finished);
}

// Fails if signals that arrive while the guard exits lose its last message. The guard would then
// appear to have been killed.
TEST_F(RunJob, LastMessageSurvivesSignals) {
  const auto one = job({"touch $FOLDER/up; until [ -e $FOLDER/go ]; do sleep 0.01; done; exit 3"});
  Guard guard(one, {{}}, "");
  guard.start();
  while (!std::filesystem::exists(folder_ + "/up")) ::usleep(1000);
  // While the guard is stopped, the rank exits and several signals become pending. When the guard
  // resumes, it handles one signal and the exit, and leaves the other signals unread.
  ::kill(guard.process(), SIGSTOP);
  std::ofstream(folder_ + "/go") << "";
  const auto rank = [&] {
    const auto below = descendants(guard.process());
    return !below.empty();
  };
  while (rank()) ::usleep(1000);
  for (int i = 0; i < 3; ++i) Guard::forward(guard.link(), SIGUSR1, false);
  ::kill(guard.process(), SIGCONT);
  const auto first = guard.receive(), second = guard.receive();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->kind, GuardMessage::failed);
  EXPECT_EQ(second->kind, GuardMessage::finished);
}

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

// Fails if a user signal from a scheduler ends the agent instead of reaching its rank.
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
              HasSubstr("the runner ended the job first: signal 9"));
}

// Fails if output is lost because its reader is slow, or lines from two ranks interleave.
TEST_F(RunJob, PrefixedOutputIsComplete) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run({"seq 1 20000; printf end", "seq 1 20000"}, {.output = {.prefix = true}}), 0);
  std::istringstream out(testing::internal::GetCapturedStdout());
  int next[2] = {1, 1};
  bool end = false;
  for (std::string line; std::getline(out, line);) {
    ASSERT_TRUE(line.starts_with("[rank 0] ") || line.starts_with("[rank 1] ")) << line;
    const int rank = line[6] - '0';
    if (line == "[rank 0] end")
      end = true;
    else
      ASSERT_EQ(line.substr(9), std::to_string(next[rank]++));
  }
  EXPECT_TRUE(end);
  EXPECT_EQ(next[0], 20001);
  EXPECT_EQ(next[1], 20001);
}

// Fails if the file with the launcher's process id is missing while the job runs, or is not removed
// afterwards.
TEST_F(RunJob, ProcessFile) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run({"cat /tmp/$LAUNCHER.deepspeed > $FOLDER/a"}), 1);
  ::setenv("LAUNCHER", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(run({"cat /tmp/$LAUNCHER.deepspeed > $FOLDER/a"}, {.save_pid = true}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(file("a"), std::to_string(::getpid()));
  EXPECT_FALSE(std::filesystem::exists("/tmp/" + std::to_string(::getpid()) + ".deepspeed"));
}

// Fails if an agent does not end its ranks after heartbeats stop, or ends them while heartbeats
// still arrive. The guard of a job with RankInput::held must send several heartbeats per second.
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
  // On a busy machine, this process may have sent heartbeats too late. The agent may then end its
  // ranks.
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
