// The file I/O engine that the `async_io` op's handles use. It splits requests into blocks, and its
// worker threads keep their queues full. Independent of torch.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/async/file.h"
#include "io/async/queue.h"

namespace anyaccel::ops::aio {

struct Options {
  std::int64_t block_bytes = 1 << 20;
  unsigned queue_depth = 128;  ///< number of in-flight blocks per worker
  bool single_submit = false;  ///< whether to make one system call per block
  /// Start a new block whenever a block completes. If false, start new blocks only after all
  /// in-flight blocks have completed.
  bool overlap_events = false;
  int workers = 1;         ///< number of threads that work on one request
  std::string queue = {};  ///< see choose_queue()
  /// How long to retry after a temporary failure (EAGAIN, no room for a request in the queue)
  /// before the request fails.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  /// Replaces choose_queue(). Called on each worker's thread. For tests.
  std::function<Choice(unsigned depth)> make_queue = {};
};

/// A transfer between a file and memory. `keep` owns the memory until the request is released.
struct Job {
  std::unique_ptr<File> file;
  bool write = false;
  char* memory = nullptr;
  Range range;
  std::shared_ptr<void> keep = {};
};

/// A job in progress, shared by the engine and its callers.
class Request {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// After done(): 0, an errno, or -1 if the file is shorter than the requested range.
  int error() const noexcept { return error_; }
  /// After done(): throws if the request failed, naming the path and the offset. The error is `io`,
  /// `out_of_memory`, or `interrupted` if the request was cancelled.
  void check() const;
  /// Drops the blocks that have not been submitted yet. The request completes soon afterwards, with
  /// ECANCELED unless it was already complete. Thread-safe and non-blocking.
  void cancel() noexcept { stop_ = true; }
  bool write() const noexcept { return job_.write; }
  /// After done(): releases the memory. Thread-safe.
  void release() noexcept;
  /// Sets the next request in release_later()'s linked list.
  void set_next(std::shared_ptr<Request> next) noexcept { next_ = std::move(next); }
  std::shared_ptr<Request> take_next() noexcept { return std::move(next_); }

 private:
  friend class Engine;
  friend class Worker;
  Job job_;
  std::string path_;
  std::atomic<bool> stop_{false};  // cancelled or failed
  std::atomic<bool> done_{false};
  std::shared_ptr<Request> next_;
  std::mutex mutex_;  // protects the members below and job_.keep
  int slices_ = 0;
  std::vector<Range> edges_;
  int error_ = 0;
  std::int64_t error_at_ = 0;
  std::string why_;    // details that the errno does not contain
  bool lost_ = false;  // the system may still access the memory, so it must never be released
};

class Worker;

/// A set of worker threads, each with its own queue. Thread-safe.
class Engine {
 public:
  /// Throws `invalid_argument` for invalid options, and `unavailable` if the requested queue does
  /// not work on this system or a thread cannot be created. Dropping the last reference waits for
  /// all requests, except in a child created by fork(), where the threads do not exist.
  static std::shared_ptr<Engine> make(Options options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Options& options() const noexcept { return options_; }
  const std::string& queue_name() const noexcept { return queue_name_; }
  const std::string& queue_reason() const noexcept { return queue_reason_; }

  /// Starts a job. Throws `io` if there is no space for a write or the file is too short for a
  /// read, and `invalid_argument` for an invalid range. Later failures are reported by the request.
  std::shared_ptr<Request> start(Job job);
  /// Waits until the request is done and releases its memory. If wait() is never called, the memory
  /// is released shortly after the request is done. Does not throw if the request failed.
  void wait(Request& request);
  /// Throws `invalid_state` in a child of the process that created the engine.
  void require_same_process() const;

 private:
  friend class Worker;
  explicit Engine(Options options);
  ~Engine();
  void finish(std::shared_ptr<Request> request) noexcept;

  Options options_;
  std::string queue_name_;
  std::string queue_reason_;
  const int process_;
  std::mutex mutex_;
  std::condition_variable some_done_;
  std::size_t next_worker_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace anyaccel::ops::aio
