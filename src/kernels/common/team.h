// A team of threads that execute the phases of a pass together. Opening a parallel region for each
// phase would cost more than the phase itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>

#include "kernels/common/openmp.h"

namespace anyaccel::ops {

/// State that all threads of a pass share. In addition, each thread has its own Team.
struct TeamShared {
  /// Maximum number of chunks of consecutive tasks. If there are more threads, several threads
  /// start with the same chunk.
  static constexpr int max_stretches = 64;
  struct alignas(64) Stretch {
    std::atomic<std::int64_t> next{0};
  };
  Stretch stretches[max_stretches];
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<unsigned> generation{0};
  std::exception_ptr failure;  ///< exception thrown in alone()
  /// Double-buffered results of alone(), because a thread may still read one while the next is
  /// written.
  bool failed[2] = {};
};

class Team {
 public:
  Team(TeamShared& shared, int thread, int threads) noexcept
      : shared_(shared),
        thread_(thread),
        threads_(threads),
        stretches_(std::min(threads, TeamShared::max_stretches)) {}

  int thread() const noexcept { return thread_; }
  int threads() const noexcept { return threads_; }

  /// Calls function(task) for each task in [0, count), and returns when all tasks are done. Each
  /// thread first processes a chunk of consecutive tasks, because sequential memory accesses are
  /// faster, and then steals tasks from the other chunks.
  template <typename Function>
  void tasks(std::int64_t count, const Function& function) {
    last_tasks(count, function);
    if (threads_ > 1) barrier();
  }

  /// Like tasks(), but without a barrier. Use it for the last phase, after which the threads join
  /// anyway.
  template <typename Function>
  void last_tasks(std::int64_t count, const Function& function) {
    if (threads_ == 1) {
      for (std::int64_t i = 0; i < count; ++i) function(i);
      return;
    }
    for (int i = 0; i < stretches_; ++i) {
      const int stretch = (thread_ + i) % stretches_;
      const std::int64_t begin = count * stretch / stretches_,
                         size = count * (stretch + 1) / stretches_ - begin;
      std::atomic<std::int64_t>& next = shared_.stretches[stretch].next;
      if (next.load(std::memory_order_relaxed) >= size) continue;
      for (std::int64_t at; (at = next.fetch_add(1, std::memory_order_relaxed)) < size;)
        function(begin + at);
    }
  }

  /// Runs function() on the thread that called run_team(). Returns false on all threads if this
  /// call or an earlier call threw.
  template <typename Function>
  bool alone(const Function& function) {
    bool& failed = shared_.failed[turn_ ^= 1];
    if (thread_ == 0) {
      if (!shared_.failure) try {
          function();
        } catch (...) {
          shared_.failure = std::current_exception();
        }
      failed = shared_.failure != nullptr;
    }
    if (threads_ > 1) barrier();
    return !failed;
  }

  /// Sets the memory that this thread will read next. The thread prefetches it while it waits for
  /// other threads.
  void prefetch(const void* begin, std::int64_t bytes) noexcept {
    soon_ = static_cast<const char*>(begin);
    soon_end_ = soon_ + std::min(bytes, max_prefetches);
  }

  /// Prefetches one cache line of the memory set by prefetch(). Returns false if all of it has been
  /// prefetched.
  bool ask() noexcept {
    if (soon_ >= soon_end_) return false;
    __builtin_prefetch(soon_, 0, 2);
    soon_ += 64;
    return true;
  }

  /// Divides [0, count) into one range per thread, calls function(begin, end) with the range of the
  /// calling thread, and returns when all threads are done.
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
      for (int i = 0; i < stretches_; ++i)
        shared_.stretches[i].next.store(0, std::memory_order_relaxed);
      shared_.generation.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; shared_.generation.load(std::memory_order_acquire) == generation; ++spins) {
      if (ask()) continue;
      if (spins < 4096)
        pause();
      else
        std::this_thread::yield();  // the cores are oversubscribed
    }
  }
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr std::int64_t max_prefetches = 512 * 1024;  // bytes; fits in an L2 cache

  TeamShared& shared_;
  int thread_, threads_, stretches_, turn_ = 0;
  const char *soon_ = nullptr, *soon_end_ = nullptr;
};

/// Calls function(Team&) concurrently on up to `threads` threads. The function may throw only
/// inside Team::alone(); such an exception is rethrown here.
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
  } else {
    Team alone(region.shared, 0, 1);
    function(alone);
  }
  if (region.shared.failure) std::rethrow_exception(region.shared.failure);
}

}  // namespace anyaccel::ops
