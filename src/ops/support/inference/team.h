// Threads that go through the phases of one pass together: a parallel region for each phase would cost more than the phase.
#pragma once

#include <atomic>
#include <thread>

#include "ops/support/tasks.h"

namespace anyaccel::ops {

/// Of one pass; each thread has a Team of its own.
struct TeamShared {
  std::atomic<std::int64_t> next{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<unsigned> generation{0};
};

class Team {
 public:
  Team(TeamShared& shared, int thread, int threads) noexcept : shared_(shared), thread_(thread), threads_(threads) {}

  int thread() const noexcept { return thread_; }
  int threads() const noexcept { return threads_; }

  /// Calls function(task) for each task in [0, count), on the thread that comes first; returns when all are done.
  template <typename Function>
  void tasks(std::int64_t count, const Function& function) {
    if (threads_ == 1) {
      for (std::int64_t i = 0; i < count; ++i) function(i);
      return;
    }
    for (std::int64_t i; (i = shared_.next.fetch_add(1, std::memory_order_relaxed)) < count;) function(i);
    barrier();
  }

  /// function(begin, end), a share of [0, count) for each thread; returns when all are done.
  template <typename Function>
  void shares(std::int64_t count, const Function& function) {
    function(count * thread_ / threads_, count * (thread_ + 1) / threads_);
    if (threads_ > 1) barrier();
  }

 private:
  void barrier() noexcept {
    const unsigned generation = shared_.generation.load(std::memory_order_relaxed);
    if (shared_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      shared_.arrived.store(0, std::memory_order_relaxed);
      shared_.next.store(0, std::memory_order_relaxed);
      shared_.generation.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; shared_.generation.load(std::memory_order_acquire) == generation; ++spins) {
      if (spins < 4096)
        pause();
      else
        std::this_thread::yield();  // more threads than processors, or another program has one
    }
  }
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  TeamShared& shared_;
  int thread_, threads_;
};

/// Calls function(Team&) on at most `threads` threads at once. It must not throw.
template <typename Function>
void run_team(std::int64_t threads, const Function& function) {
  struct Region {
    const Function& function;
    TeamShared shared{};

    static void run(void* data) {
      Region& region = *static_cast<Region*>(data);
      Team team(region.shared, omp_get_thread_num(), omp_get_num_threads());
      region.function(team);
    }
  };
  Region region{function};
  if (threads > 1) {
    GOMP_parallel(&Region::run, &region, static_cast<unsigned>(threads), 0);
    return;
  }
  Team alone(region.shared, 0, 1);
  function(alone);
}

}  // namespace anyaccel::ops
