// A thread that runs tasks in the order in which they were posted.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace anyaccel::comm {

/// Runs tasks on its thread. The destructor waits until all tasks have run.
class SerialExecutor {
 public:
  SerialExecutor() : thread_([this] { run(); }) {}
  ~SerialExecutor() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  /// `task` must not throw. Thread-safe.
  void post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
  }

 private:
  void run() {
    // The simulator's checker recognizes the thread by its name and observes its lock.
    ::pthread_setname_np(::pthread_self(), "anyaccel_comm");
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      {
        const auto task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
      }  // release what the task held before locking again
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;  // must be last, because the thread uses the other members
};

}  // namespace anyaccel::comm
