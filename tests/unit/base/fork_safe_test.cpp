#include "base/fork_safe.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/log.h"

namespace anyaccel {

namespace {

// Fails if a child deadlocks or sees partially updated data when it is forked while another thread
// holds the lock.
TEST(ForkSafe, ChildFindsLocksFree) {
  static auto* mutex = new ForkSafeMutex;
  static int first = 0, second = 0;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      const std::lock_guard lock(*mutex);
      ++first;
      for (int i = 0; i < 1000; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      second = first;
    }
  });
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      const std::lock_guard lock(*mutex);
      log_once(LogLevel::debug, "fork", "said under a lock");
      ::_exit(first == second ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << i;
  }
  stop = true;
  other.join();
}

// Fails if a descriptor registered with close_in_children() stays open in child processes.
TEST(ForkSafe, DescriptorIsClosedInChildren) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_TRUE(close_in_children(ends[1]));
  const pid_t child = ::fork();
  if (child == 0) ::pause();
  forget_in_children(ends[1]);
  ::close(ends[1]);
  char byte = 0;
  ::alarm(20);  // otherwise, a leaked descriptor would block read() forever
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::alarm(0);
  ::close(ends[0]);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

}  // namespace anyaccel
