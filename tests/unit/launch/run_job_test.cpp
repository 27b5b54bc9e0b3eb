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

  /// Two ranks, each a shell that runs its own script.
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

constexpr const char* kForEver = "exec sleep 1000";

// Breaks when a rank's variables do not reach it, or a job that went well is no success.
TEST_F(RunJob, EndsWell) {
  EXPECT_EQ(run({"echo $RANK > $FOLDER/a", "echo $RANK > $FOLDER/b"}), 0);
  EXPECT_EQ(file("a") + file("b"), "0\n1\n");
  EXPECT_EQ(said_, "");
}

// Breaks when ranks outlive one that failed, or its exit code or last words are lost.
TEST_F(RunJob, FailureEndsAll) {
  EXPECT_EQ(run({kForEver, "echo the reason >&2; exit 3"}), 3);
  EXPECT_THAT(said_, HasSubstr("rank 1 on here failed first: exit code 3; its last lines:\n  | the reason\n"));
}

// Breaks when a signal's death counts as success, as in DeepSpeed's launcher.
TEST_F(RunJob, SignalIs128AndMore) {
  EXPECT_EQ(run({"kill -SEGV $$", kForEver}), 128 + SIGSEGV);
  EXPECT_THAT(said_, HasSubstr("rank 0 on here failed first: signal 11 ("));
}

// Breaks when a process that ignores SIGTERM, or that left its session and its parent, stays.
TEST_F(RunJob, NothingStays) {
  EXPECT_EQ(run({"trap '' TERM; (setsid sh -c 'trap \"\" TERM; touch $FOLDER/up; sleep 1000' &) ; sleep 1000",
                 "until [ -e $FOLDER/up ]; do sleep 0.01; done; exit 4"}),
            4);
}

// Breaks when what a job that went well left behind goes on running, or is not told.
TEST_F(RunJob, NothingStaysBehindSuccess) {
  EXPECT_EQ(run({"setsid sleep 1000 > /dev/null 2>&1 & exit 0", "exit 0"}), 0);
  EXPECT_THAT(said_, HasSubstr("1 processes that they left behind were ended"));
}

// Breaks when the first failure is the first in the list of ranks rather than in time. The guard sleeps while both fail, so it
// has to be told their order by the kernel.
TEST_F(RunJob, FirstIsFirstInTime) {
  const std::string guard = "$(cut -d' ' -f4 /proc/$$/stat)";
  for (const int first : {0, 1}) {
    std::filesystem::remove(folder_ + "/first");
    // The later one goes on when the earlier one is a zombie, and lets the guard go on when it is one itself.
    const std::string early = "echo $$ > $FOLDER/tmp; kill -STOP " + guard + "; mv $FOLDER/tmp $FOLDER/first; exit 11";
    const std::string late =
        "until [ -e $FOLDER/first ]; do sleep 0.01; done; until grep -q '(sh) Z' /proc/$(cat $FOLDER/first)/stat; do "
        "sleep 0.01; done; "
        "(setsid sh -c \"until grep -q '(sh) Z' /proc/$$/stat; do sleep 0.01; done; kill -CONT " +
        guard + "\" > /dev/null 2>&1 &); exit 12";
    EXPECT_EQ(run(first == 0 ? std::vector{early, late} : std::vector{late, early}), 11) << said_;
  }
}

// Breaks when a program that is not there looks like a rank that failed by itself.
TEST_F(RunJob, ProgramThatIsNotThere) {
  auto one = job({""});
  one.ranks[0].command = {"/no/such/program"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(one, {}), 127);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot run /no/such/program: No such file"));
}

// Breaks when a rank inherits what the launcher must not pass on.
TEST_F(RunJob, VariablesThatAreNotPassedOn) {
  ::setenv("LAUNCH_TEST_GONE", "1", 1);
  auto one = job({"echo ${LAUNCH_TEST_GONE-unset} > $FOLDER/a"});
  one.unset = {"LAUNCH_TEST_GONE"};
  EXPECT_EQ(run_job(one, {}), 0);
  EXPECT_EQ(file("a"), "unset\n");
}

/// run_job() in a child of one thread, so that a thread here can play the user.
int run_in_child(const Job& job, const std::string& ready, int signal) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_job(job, {}));
  while (!std::filesystem::exists(ready)) ::usleep(1000);
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return exit_code_of(status);
}

// Breaks when a signal to the launcher does not reach ranks, or they have no time to end by themselves.
TEST_F(RunJob, SignalsArePassedOn) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::filesystem::remove(folder_ + "/up");
    const auto one =
        job({"trap 'echo saved > $FOLDER/saved; exit 0' INT TERM HUP; touch $FOLDER/up; while :; do sleep 0.01; done"});
    EXPECT_EQ(run_in_child(one, folder_ + "/up", signal), 128 + signal);
    EXPECT_EQ(file("saved"), "saved\n");
    std::filesystem::remove(folder_ + "/saved");
  }
}

// Fails if a signal to the guard is lost, or a scheduler that signals launcher and guard at once counts as two signals,
// of which the second kills.
TEST_F(RunJob, SignalsToTheGuardArePassedOn) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    for (const auto& order : {std::vector{'g'}, std::vector{'g', 'l'}, std::vector{'l', 'g'}}) {
      const auto one =
          job({"trap 'sleep 0.3; echo saved > $FOLDER/saved; exit 0' INT TERM HUP QUIT;"
               "cut -d' ' -f4 /proc/$$/stat > $FOLDER/tmp; mv $FOLDER/tmp $FOLDER/up; while :; do sleep 0.01; done"});
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

// Breaks when ranks outlive a launcher that was killed: this process becomes the one that they would fall to.
TEST_F(RunJob, KilledLauncherLeavesNothing) {
  const auto one = job({"trap '' TERM INT HUP; (setsid sleep 1000 > /dev/null 2>&1 &); touch $FOLDER/up; sleep 1000"});
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  EXPECT_EQ(run_in_child(one, folder_ + "/up", SIGKILL), 128 + SIGKILL);
  // All of them are children of this process now, so it can wait for the last one; the test's own limit ends what does not end.
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
}

// Breaks when ranks, or what they left behind, outlive a guard that was killed.
TEST_F(RunJob, KilledGuardLeavesNothing) {
  EXPECT_EQ(run({"(setsid sleep 1000 > /dev/null 2>&1 &); kill -KILL $(cut -d' ' -f4 /proc/$$/stat); sleep 1000"}),
            128 + SIGKILL);
  EXPECT_THAT(said_, HasSubstr("was killed"));
}

// Breaks when ranks run before the launcher handles signals: one that comes then ends an agent as a failure, and a launcher without a word.
TEST_F(RunJob, NoRankRunsBeforeTheStart) {
  const auto one = job({"touch $FOLDER/up"});
  {
    const Guard guard(one, {{}}, "");
    // It waits for the start; wrongly, for its rank, or has ended.
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

// Breaks when a signal that comes before the ranks are started is taken for the start, and lost.
TEST_F(RunJob, SignalBeforeTheStartCounts) {
  const auto one = job({"trap 'exit 3' TERM; touch $FOLDER/up; while :; do sleep 0.01; done"});
  Guard guard(one, {{}}, "");
  Guard::forward(guard.link(), SIGTERM, false);
  guard.start();
  const auto message = guard.receive();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, GuardMessage::finished);
}

// Breaks when signals that come while the guard ends make its last message look as if it had been killed.
TEST_F(RunJob, SignalsAtTheEndLoseNoMessage) {
  const auto one = job({"touch $FOLDER/up; until [ -e $FOLDER/go ]; do sleep 0.01; done; exit 3"});
  Guard guard(one, {{}}, "");
  guard.start();
  while (!std::filesystem::exists(folder_ + "/up")) ::usleep(1000);
  // All of this waits for the guard, which takes one of the signals, sees the end and leaves the others unread.
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

/// The agent of one rank, in a child: a runner's signals come to it.
int run_agent(const Job& job, const std::string& ready, int signal, int ends_with = -1) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_job(job, {.ends_with = ends_with, .one_rank = true}));
  while (!std::filesystem::exists(ready)) ::usleep(1000);
  if (signal != 0) ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return exit_code_of(status);
}

// Breaks when a runner that is asked for the end kills ranks that save something, since one agent ended with a failure.
TEST_F(RunJob, AgentEndsWellWhenAsked) {
  for (const int signal : {SIGALRM, SIGQUIT}) {
    const auto one =
        job({"trap 'echo saved > $FOLDER/saved; exit 5' TERM; touch $FOLDER/up; while :; do sleep 0.01; done"});
    EXPECT_EQ(run_agent(one, folder_ + "/up", signal), 0);
    EXPECT_EQ(file("saved"), "saved\n");
    std::filesystem::remove(folder_ + "/up");
    std::filesystem::remove(folder_ + "/saved");
  }
}

// Breaks when a scheduler's signal ends an agent rather than being its rank's.
TEST_F(RunJob, UserSignalsAreTheRanks) {
  const auto one = job({"trap 'exit 6' USR1; touch $FOLDER/up; while :; do sleep 0.01; done"});
  EXPECT_EQ(run_agent(one, folder_ + "/up", SIGUSR1), 6);
}

// Breaks when an agent outlives what started it.
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

/// A launcher over a runner, which starts what `script` says.
Job runner_of(const std::string& folder, const std::string& script) {
  Job out{.input = RankInput::nothing, .own_group = true, .end_signal = SIGALRM};
  JobRank rank{.host = "the runner"};
  rank.environment = {{"FOLDER", folder}};
  rank.command = {"sh", "-c", script};
  out.ranks.push_back(rank);
  return out;
}

// Breaks when the runner's own mapping of exit codes counts, or a runner that goes on without a rank does.
TEST_F(RunJob, ReportOfAnAgentCounts) {
  const auto report = format_report({3, 9 << 8});
  const auto one = runner_of(
      folder_, "printf 'half a line of rank 1: " + report + "' >&2; trap 'exit 1' ALRM; while :; do sleep 0.01; done");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(one, {.output = {.reports = true}}), 9);
  said_ = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said_, HasSubstr("rank 3 failed first: exit code 9"));
  EXPECT_THAT(said_, testing::Not(HasSubstr("report")));
}

// Breaks when a runner that waits for a host for ever is waited for, the others are told wrongly, or a job whose ranks came is ended.
TEST_F(RunJob, RankThatDoesNotStart) {
  const auto started = [](int rank) { return format_report({rank, kStarted}); };
  auto one = runner_of(folder_, "printf '" + started(1) + "' >&2; trap 'exit 1' ALRM; while :; do sleep 0.01; done");
  one.start_limit = 1;
  one.rank_hosts = {"a", "b"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(one, {.output = {.reports = true}}), 255);
  said_ = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said_, HasSubstr("the runner has not started rank 0 on a, and no other rank for 1 s"));
  EXPECT_THAT(said_, testing::Not(HasSubstr("report")));
  one.ranks.front().command.back() = "printf '" + started(1) + started(0) + "' >&2; sleep 1.5; exit 3";
  EXPECT_EQ(run_job(one, {.output = {.reports = true}}), 3);
}

// Breaks when the end of a runner by itself is no failure, or its signal is lost.
TEST_F(RunJob, RunnerThatDies) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(runner_of(folder_, "kill -KILL $$"), {.output = {.reports = true}}), 137);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the runner ended the job first: signal 9"));
}

// Breaks when output is lost while nobody takes it, or lines of two ranks mix.
TEST_F(RunJob, PrefixedOutputIsWhole) {
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

// Breaks when programs that start the launcher do not find its process, or its file stays.
TEST_F(RunJob, ProcessFile) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run({"cat /tmp/$LAUNCHER.deepspeed > $FOLDER/a"}), 1);
  ::setenv("LAUNCHER", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(run({"cat /tmp/$LAUNCHER.deepspeed > $FOLDER/a"}, {.save_pid = true}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(file("a"), std::to_string(::getpid()));
  EXPECT_FALSE(std::filesystem::exists("/tmp/" + std::to_string(::getpid()) + ".deepspeed"));
}

// Breaks when ranks outlive a launcher on another host that says nothing any more although its connection stands, or an agent ends them
// while it does. The guard of a job whose input is held gives the signs; they come many times within the second.
TEST_F(RunJob, SilenceEndsAnAgent) {
  auto above = job({"exec cat > $FOLDER/signs"});
  above.input = RankInput::held;
  above.silence = 1;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[1]);
    auto below = job({kForEver});
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
  // This process itself may have been kept from telling it.
  if (longest < std::chrono::milliseconds(500)) {
    EXPECT_EQ(ended, 0) << "ended while it was told that somebody is there";
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
