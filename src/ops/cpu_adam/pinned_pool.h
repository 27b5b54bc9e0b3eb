// A pool of threads that are pinned to given CPUs. The pool executes one loop at a time, on all of
// its threads.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace anyaccel::ops {

/// Only one thread at a time may call run(). Forked children do not inherit the threads.
class PinnedPool {
 public:
  using Range = std::function<void(std::int64_t begin, std::int64_t end)>;

  /// Creates one thread per CPU, or one unpinned thread if the list is empty.
  explicit PinnedPool(std::vector<std::int64_t> processors) {
    if (processors.empty()) processors.push_back(-1);
    count_ = static_cast<std::int64_t>(processors.size());
    for (std::int64_t i = 0; i < count_; ++i)
      threads_.emplace_back(
          [this, i, processor = processors[static_cast<std::size_t>(i)]] { work(i, processor); });
  }
  ~PinnedPool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// Divides [0, total) among the threads and returns when all of them are done.
  void run(std::int64_t total, const Range& range) {
    std::unique_lock lock(mutex_);
    range_ = &range;
    total_ = total;
    left_ = count_;
    ++round_;
    start_.notify_all();
    done_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  void work(std::int64_t index, std::int64_t processor) {
    if (processor >= 0 && processor < CPU_SETSIZE) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<std::size_t>(processor), &set);
      // If this fails, the thread remains unpinned.
      pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      const Range& range = *range_;
      const std::int64_t part =
          ((total_ + count_ - 1) / count_ + 63) / 64 * 64;  // threads must not share cache lines
      const std::int64_t begin = std::min(total_, index * part);
      const std::int64_t end = std::min(total_, begin + part);
      lock.unlock();
      if (begin < end) range(begin, end);
      lock.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::vector<std::thread> threads_;
  const Range* range_ = nullptr;
  std::int64_t count_ = 0;
  std::int64_t total_ = 0;
  std::int64_t left_ = 0;
  std::uint64_t round_ = 0;
  bool stop_ = false;
};

}  // namespace anyaccel::ops
