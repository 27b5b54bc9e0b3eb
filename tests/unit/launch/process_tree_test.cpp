#include "launch/process_tree.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace anyaccel::launch {
namespace {

/// A child and a grandchild that run until they are killed.
struct Family {
  pid_t child = 0, grandchild = 0;
  Family() {
    int ends[2];
    if (::pipe(ends) != 0) return;
    child = ::fork();
    if (child == 0) {
      const pid_t second = ::fork();
      if (second == 0) {
        ::setpgid(0, 0);
        const pid_t self = ::getpid();
        if (::write(ends[1], &self, sizeof self) < 0) ::_exit(1);
      }
      for (;;) ::pause();
    }
    if (::read(ends[0], &grandchild, sizeof grandchild) < 0) grandchild = 0;
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Family() {
    ::kill(grandchild, SIGKILL);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
};

bool has(const std::vector<Process>& processes, pid_t id) {
  return std::any_of(processes.begin(), processes.end(),
                     [&](const Process& one) { return one.id == id; });
}

// Fails if a grandchild is missed, or a process counts as its own descendant.
TEST(ProcessTree, IncludesGrandchildren) {
  const Family family;
  const auto found = descendants(::getpid());
  EXPECT_TRUE(has(found, family.child));
  EXPECT_TRUE(has(found, family.grandchild));
  EXPECT_FALSE(has(found, ::getpid()));
  EXPECT_FALSE(has(descendants(family.child), family.child));
}

// Fails if a zombie counts as a running process.
TEST(ProcessTree, ExcludesZombies) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(has(descendants(::getpid()), child));
  ::waitpid(child, nullptr, 0);
}

// Fails if the signal is sent to the excluded process group, or not to the other processes.
TEST(ProcessTree, SkipsTheExcludedGroup) {
  const Family family;
  send_signal(descendants(family.child), SIGKILL, family.grandchild);
  EXPECT_TRUE(has(descendants(family.child), family.grandchild));
  send_signal(descendants(family.child), SIGKILL, ::getpgrp());
  while (has(descendants(family.child), family.grandchild)) ::usleep(1000);
}

}  // namespace
}  // namespace anyaccel::launch
