#include "launch/run_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launch/guard.h"
#include "launch/process_tree.h"
#include "unit/launch/run_job_fixture.h"

namespace anyaccel::launch {
namespace {

using testing::HasSubstr;

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
  EXPECT_THAT(said_, HasSubstr("leftover processes that were terminated: 1"));
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

// Fails if ranks, or processes that they have started, keep running after the guard is killed.
TEST_F(RunJob, NoProcessSurvivesAKilledGuard) {
  EXPECT_EQ(run({"(setsid sleep 1000 > /dev/null 2>&1 &); kill -KILL $(cut -d' ' -f4 "
                 "/proc/$$/stat); sleep 1000"}),
            128 + SIGKILL);
  EXPECT_THAT(said_, HasSubstr("was killed"));
}

// Fails if ranks run before the launcher handles signals. A signal at that time would terminate the
// launcher without an error message.
TEST_F(RunJob, NoRankRunsBeforeTheStart) {
  const auto one = job({"touch $FOLDER/up"});
  {
    const Guard guard(one, {{}}, "");
    // A correct guard sleeps until it gets the start message. A defective guard sleeps until its
    // rank exits, or has already exited.
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

}  // namespace
}  // namespace anyaccel::launch
