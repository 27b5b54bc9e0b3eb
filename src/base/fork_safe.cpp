#include "base/fork_safe.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace anyaccel {

namespace {

// Entries are never removed, because the fork() handlers may read them on any thread.
constexpr int kMaxMutexes = 32;
std::array<std::atomic<ForkSafeMutex*>, kMaxMutexes> mutexes{};
// Atomic, because the child must not wait for locks. 0 marks a free entry: standard input is never
// registered.
constexpr int kMaxDescriptors = 256;
std::array<std::atomic<int>, kMaxDescriptors> descriptors{};

void for_all(void (ForkSafeMutex::*what)()) {
  for (auto& one : mutexes)
    if (auto* mutex = one.load()) (mutex->*what)();
}

void before_fork() { for_all(&ForkSafeMutex::lock); }
void after_in_parent() { for_all(&ForkSafeMutex::unlock); }
void after_in_child() {
  for_all(&ForkSafeMutex::unlock);
  for (auto& one : descriptors)
    if (const int descriptor = one.exchange(0); descriptor > 0) ::close(descriptor);
}

void be_told_of_forks() {
  static const int done = ::pthread_atfork(before_fork, after_in_parent, after_in_child);
  static_cast<void>(done);
}

}  // namespace

ForkSafeMutex::ForkSafeMutex() {
  be_told_of_forks();
  for (auto& one : mutexes) {
    ForkSafeMutex* free = nullptr;
    if (one.compare_exchange_strong(free, this)) return;
  }
}

bool close_in_children(int descriptor) noexcept {
  be_told_of_forks();
  for (auto& one : descriptors) {
    int free = 0;
    if (one.compare_exchange_strong(free, descriptor)) return true;
  }
  return false;
}

void forget_in_children(int descriptor) noexcept {
  for (auto& one : descriptors) {
    int taken = descriptor;
    if (one.compare_exchange_strong(taken, 0)) return;
  }
}

}  // namespace anyaccel
