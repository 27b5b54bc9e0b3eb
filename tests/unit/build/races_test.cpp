// Tests builds in several processes, some of which are killed.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "anyaccel/interrupt.h"
#include "build/processes.h"
#include "unit/build/fake_op.h"
#include "unit/support/expect_error.h"
#include "unit/support/scoped_env.h"

namespace anyaccel::build {

namespace {

using std::chrono::milliseconds;
using test::ScopedEnv;

struct RacesTest : testing::Test {
  ScopedEnv ccache{"CCACHE_DISABLE", "1"};
  FakeOp fake;

  pid_t start_loading() {
    const pid_t child = ::fork();
    if (child != 0) return child;
    try {
      const auto found = fake.load();
      ::_exit(read_file(found.held.library).ends_with("second\n") ? 0 : 2);
    } catch (...) {
      ::_exit(3);
    }
  }
};

// Fails if concurrent processes build an op more than once, or one of them sees a partial library.
TEST_F(RacesTest, EightProcessesBuildOnce) {
  fake.write("slow", "0.2");
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) children.push_back(start_loading());
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fake.calls("-shared"), 1);
  EXPECT_EQ(fake.calls("-c "), 2);
}

/// Waits for up to a minute. Returns whether all processes have exited or are zombies.
bool all_gone(const std::string& pids) {
  for (int i = 0; i < 6000; ++i) {
    std::istringstream lines(pids);
    bool gone = true;
    for (std::string pid; lines >> pid;) {
      const auto stat = try_read_file("/proc/" + pid + "/stat");
      gone = gone && (!stat || stat->find(") Z ") != std::string::npos);
    }
    if (gone) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

// Fails if a killed builder keeps its lock, or its compilers keep running. ANYACCEL_TEST_KILLS sets
// the number of kills.
TEST_F(RacesTest, KilledBuilderBlocksNobody) {
  const char* named = std::getenv("ANYACCEL_TEST_KILLS");
  const int kills = named == nullptr ? 4 : std::atoi(named);
  fake.write("slow", "0.02");
  std::mt19937 random(20261121);
  for (int i = 0; i < kills; ++i) {
    // A build takes about 0.1 s, so some builders are killed before they publish the library, some
    // while they do so, and some afterwards.
    const pid_t child = start_loading();
    std::this_thread::sleep_for(milliseconds(random() % 120));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(all_gone(try_read_file(fake.path("pids")).value_or("")))
        << "compilers outlived their builder";
    const auto begin = std::chrono::steady_clock::now();
    auto found = fake.load();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(120));
    EXPECT_EQ(read_file(found.held.library), "#include \"a.h\"\nfirst\nsecond\n");
    found.held.use = {};
    EXPECT_EQ(Cache(fake.settings.cache).clean(""), (std::pair{1, 0}));
    Cache(fake.settings.cache).evict(1 << 30);
    EXPECT_LE(fake.in_cache(".anyaccel-build-"), 1) << "files of a killed builder were not removed";
  }
}

// Fails if a waiting process does not report the lock holder, or does not get the lock after its
// release.
TEST(FileLock, ReportsItsHolder) {
  const llm::TemporaryFolder folder;
  const auto file = folder / "lock";
  auto held = FileLock::exclusive(file, [](const auto&) {});
  EXPECT_FALSE(FileLock::try_exclusive(file));
  EXPECT_FALSE(FileLock::try_shared(file));
  FileLock::Holder holder;
  const auto second = FileLock::exclusive(file, [&](const auto& told) {
    holder = told;
    held = FileLock();
  });
  EXPECT_EQ(holder.process, ::getpid());
  EXPECT_FALSE(holder.host.empty());
  EXPECT_TRUE(second.is_at(file));
  std::filesystem::remove(file);
  EXPECT_FALSE(second.is_at(file));
}

// Fails if a forked child still holds a lock after the lock's owner has released it or was killed.
TEST(FileLock, ForkedChildDoesNotHoldIt) {
  const llm::TemporaryFolder folder;
  for (const bool killed : {false, true}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t owner = ::fork();
    if (owner == 0) {
      auto lock = FileLock::exclusive(folder / "lock", [](const auto&) {});
      const pid_t child = ::fork();
      if (child == 0) ::pause();
      if (!killed) lock = FileLock();
      static_cast<void>(::write(ends[1], &child, sizeof child));
      ::pause();
    }
    pid_t child = 0;
    ASSERT_EQ(::read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
    if (killed) ::kill(owner, SIGKILL), ::waitpid(owner, nullptr, 0);
    // The child closes its inherited copy of the descriptor shortly after the fork.
    FileLock taken;
    for (int i = 0; i < 6000 && !taken; ++i, std::this_thread::sleep_for(milliseconds(10)))
      taken = FileLock::try_exclusive(folder / "lock");
    EXPECT_TRUE(taken) << (killed ? "the owner was killed" : "the lock was released");
    ::kill(child, SIGKILL);
    if (!killed) ::kill(owner, SIGKILL), ::waitpid(owner, nullptr, 0);
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

// Fails if a process that waits for a build in another process does not report the other process's
// id, or cannot be interrupted.
TEST_F(RacesTest, WaitIsReportedAndBounded) {
  fake.write("slow", "30");
  const pid_t child = start_loading();
  while (fake.calls("-c ") == 0) std::this_thread::sleep_for(milliseconds(10));
  const ScopedEnv limit("ANYACCEL_OP_WAIT", "3");
  testing::internal::CaptureStderr();
  EXPECT_ERROR(fake.load(), timeout, "is being built by process " + std::to_string(child) + " on ");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("warning: tiny: waiting for process " + std::to_string(child)));
  set_interrupt_check(+[] { return true; });
  EXPECT_ERROR(fake.load(), interrupted, "asked to stop");
  set_interrupt_check(nullptr);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// Fails if arguments pass through a shell, or an exit code or signal is lost.
TEST(Processes, RunProgram) {
  EXPECT_EQ(run_program({"/bin/echo", "$HOME", "a b;c"}, {}).output, "$HOME a b;c\n");
  EXPECT_EQ(run_program({"/bin/sh", "-c", "exit 7"}, {}).status, 7);
  EXPECT_EQ(run_program({"/bin/sh", "-c", "kill -9 $$"}, {}).status, 137);
  EXPECT_ERROR(run_program({"/nowhere/program"}, {}), unavailable, "/nowhere/program");
  EXPECT_EQ(shell_quoted({"a", "b c", "it's", "", "$x"}), "a 'b c' 'it'\\''s' '' '$x'");
}

/// Sets the SIGCHLD handler of this process for a scope.
struct ScopedSigchld {
  explicit ScopedSigchld(void (*handler)(int)) : before(::signal(SIGCHLD, handler)) {}
  ~ScopedSigchld() { ::signal(SIGCHLD, before); }
  ScopedSigchld(const ScopedSigchld&) = delete;
  ScopedSigchld& operator=(const ScopedSigchld&) = delete;
  void (*before)(int);
};

void reap_all(int) {
  const int before = errno;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  errno = before;
}

// Fails if exit codes are lost because the program ignores SIGCHLD, or its SIGCHLD handler reaps
// every child. A failed compilation could then count as a success.
TEST_F(RacesTest, SurvivesTheProgramsSigchldHandler) {
  for (auto* handler : {SIG_IGN, static_cast<void (*)(int)>(reap_all)}) {
    const ScopedSigchld scope(handler);
    EXPECT_EQ(run_program({"/bin/sh", "-c", "exit 0"}, {}).status, 0);
    EXPECT_EQ(run_program({"/bin/sh", "-c", "echo no; exit 7"}, {}).status, 7);
    const std::string header = handler == SIG_IGN ? "x/x.h" : "x/y.h";
    fake.write("ops/tiny/b.cpp", header);  // forces a build
    fake.describe("torch = no\nheader = " + header + ": libx-dev\n");
    EXPECT_EQ(check(fake.op(), fake.settings).reason,
              "the header " + header + " is missing; install libx-dev");
    fake.write("has/" + header, "");
    EXPECT_EQ(fake.load().origin, Origin::built);
    fake.write("ops/tiny/b.cpp", "WRONG\n");
    EXPECT_ERROR(fake.load(), build_failed, "exited with code 3");
  }
}

std::atomic<int> forks{0};

// Fails if a build forks the program's process, which may be large or have threads that hold locks.
TEST_F(RacesTest, ProcessIsNeverForked) {
  static const int told = ::pthread_atfork([] { ++forks; }, nullptr, nullptr);
  ASSERT_EQ(told, 0);
  forks = 0;
  fake.load();
  EXPECT_EQ(forks, 0);
}

bool asked_to_stop() { return true; }

// Fails if an interrupt, such as Ctrl-C in Python, takes effect only when the build ends, or leaves
// compilers running.
TEST_F(RacesTest, BuildCanBeInterrupted) {
  fake.write("slow", "3000");
  const auto begin = std::chrono::steady_clock::now();
  set_interrupt_check(asked_to_stop);
  EXPECT_ERROR(fake.load(), interrupted, "asked to stop");
  set_interrupt_check(nullptr);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(300));
  EXPECT_TRUE(all_gone(try_read_file(fake.path("pids")).value_or("")));
}

}  // namespace

}  // namespace anyaccel::build
