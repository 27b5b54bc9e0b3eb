// Streams: queues of tasks. Each has a worker thread, which starts with the first task.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "backends/sim/faults.h"
#include "backends/sim/observer.h"

namespace anyaccel::backends::sim {

class Capture;
class IndexRows;
struct Device;

/// A task in a stream. Tasks in a graph run many times, so `run` must leave the task unchanged if
/// `again` is true.
class Task {
 public:
  explicit Task(const char* name, bool kernel = true) : name_(name), kernel_(kernel) {}
  virtual ~Task() = default;
  virtual void run(bool again) = 0;
  const char* name() const noexcept { return name_; }
  /// False for markers and waits, which take no time on a device and cannot fail.
  bool kernel() const noexcept { return kernel_; }
  LaunchFault fault = {};
  /// Correlation ID that the profiler gave the op that launched the task; 0 if no profiler is
  /// recording.
  std::uint64_t correlation = 0;
  std::unique_ptr<KernelWatch> watch;  ///< may be null
  /// Rows whose index tensor the worker reads before it runs the task; may be null.
  std::shared_ptr<IndexRows> rows;

 private:
  const char* name_;
  bool kernel_;
};

/// One-based sequence number of a task in its stream.
using Ticket = std::uint64_t;

class SimStream {
 public:
  SimStream(Device& device, int id, int priority) : device_(device), id_(id), priority_(priority) {}
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  Device& device() const noexcept { return device_; }
  int id() const noexcept { return id_; }
  /// Lower values mean higher priority; 0 is normal.
  int priority() const noexcept { return priority_; }

  /// Appends a task to the queue or, while a graph captures the stream, to the graph. Blocks while
  /// the queue is full. Throws in a forked child of the process that started the simulator.
  void submit(std::unique_ptr<Task> task);

  /// The last submitted task.
  Ticket last() const noexcept { return submitted_.load(std::memory_order_acquire); }
  bool done(Ticket ticket) const noexcept {
    return completed_.load(std::memory_order_acquire) >= ticket;
  }
  Ticket completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  bool idle() const noexcept { return done(last()); }
  void wait(Ticket ticket);

  Capture* capture() const noexcept { return capture_.load(std::memory_order_acquire); }
  void set_capture(Capture* capture) noexcept {
    capture_.store(capture, std::memory_order_release);
  }

  /// Records whether the worker waits for another stream. If it does, lower-priority streams need
  /// not wait for this one. Called only by the worker.
  void set_blocked(bool blocked) noexcept { blocked_.store(blocked, std::memory_order_relaxed); }
  /// True if there are queued kernels that could run now.
  bool wants_device() const noexcept {
    return !idle() && !blocked_.load(std::memory_order_relaxed);
  }

  /// Stops the worker after all queued work. Called when the process exits.
  void stop();

  std::mutex& lock_for_fork() noexcept { return mutex_; }

 private:
  void start_locked();
  void work();

  Device& device_;
  const int id_;
  const int priority_;
  std::atomic<Capture*> capture_{nullptr};

  std::mutex mutex_;
  std::condition_variable has_work_, has_progress_;
  std::deque<std::unique_ptr<Task>> queue_;
  bool sleeping_ = false, stopping_ = false;
  std::atomic<bool> blocked_{false};
  std::atomic<int> waiters_{0};
  alignas(64) std::atomic<Ticket> submitted_{0};
  alignas(64) std::atomic<Ticket> completed_{0};
  std::thread worker_;
};

/// Throws in a process that was forked after the first stream started.
void check_not_forked();

/// Launches a kernel: calls the observer, applies faults, and submits the task. All kernels are
/// launched here. Throws if the device is lost.
void launch(SimStream& stream, std::unique_ptr<Task> task, const LaunchInfo& info);

/// The op that this thread runs as a stream's worker. `stream` is null on all other threads.
struct Running {
  const SimStream* stream = nullptr;
  const char* op = "";
};
Running running() noexcept;

/// Runs one task, with the device's latency and the task's injected fault. Exceptions of the task
/// are stored in the device.
void execute_task(SimStream& stream, Task& task, bool again);

/// Waits for a stream, then throws the first error on its device since the last wait. Calls the
/// observer.
void synchronize(SimStream& stream);

}  // namespace anyaccel::backends::sim
