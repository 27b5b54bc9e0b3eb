#include "launch/run_job.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

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
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "launcher pid: " + std::to_string(::getpid()) + "\n");
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
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(::write(ends[1], ".", 1), 1);
    ::usleep(50000);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(agent, &status, WNOHANG), 0) << "ended while it was told that somebody is there";
  EXPECT_EQ(::waitpid(agent, &status, 0), agent);
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
