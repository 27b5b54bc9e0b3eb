// The engine behind handles: requests are cut into blocks, and worker threads keep their queues
// full. Knows no torch.
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
  unsigned queue_depth = 128;  ///< blocks under way in each worker
  bool single_submit = false;  ///< one call of the system for each block
  bool overlap_events =
      false;  ///< new blocks start whenever one is done; otherwise when all that were started are
  int workers = 1;         ///< threads among which one request is divided
  std::string queue = {};  ///< as choose_queue() has it
  /// How long a refusal that may pass (EAGAIN, no room for a request) is tried again before it is
  /// the request's error.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  /// Instead of choose_queue(); called on each worker's thread. For tests.
  std::function<Choice(unsigned depth)> make_queue = {};
};

/// What is to be done with a file. `keep` holds the memory until the request is released.
struct Job {
  std::unique_ptr<File> file;
  bool write = false;
  char* memory = nullptr;
  Range range;
  std::shared_ptr<void> keep = {};
};

/// One job on its way. The engine and callers share it.
class Request {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// After done(): 0, an errno, or -1 when the file ended before the range did.
  int error() const noexcept { return error_; }
  /// After done(): throws what went wrong, with path and place: `io`, `interrupted` when cancelled,
  /// `out_of_memory`.
  void check() const;
  /// Blocks that the system does not have yet are given up; the request is done soon, with
  /// ECANCELED unless it was through. Thread-safe; waits for nothing.
  void cancel() noexcept { stop_ = true; }
  bool write() const noexcept { return job_.write; }
  /// After done(): lets go of the memory. Thread-safe.
  void release() noexcept;
  /// The chain of release_later().
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
  std::mutex mutex_;  // guards what follows, and job_.keep
  int slices_ = 0;
  std::vector<Range> edges_;
  int error_ = 0;
  std::int64_t error_at_ = 0;
  std::string why_;    // more than the error says
  bool lost_ = false;  // the system may use the memory for ever
};

class Worker;

/// Threads, each with a queue. Safe to use from several threads.
class Engine {
 public:
  /// Throws `invalid_argument` for options that make no sense, `unavailable` when the wanted queue
  /// does not work here or no thread can be made. The last owner's going waits for all requests; in
  /// a child made by fork() it does nothing, because the threads are not there.
  static std::shared_ptr<Engine> make(Options options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Options& options() const noexcept { return options_; }
  const std::string& queue_name() const noexcept { return queue_name_; }
  const std::string& queue_reason() const noexcept { return queue_reason_; }

  /// Throws `io` when a write has no space, `invalid_argument` for a bad range; later failures are
  /// the request's.
  std::shared_ptr<Request> start(Job job);
  /// Blocks until the request is done, and releases its memory and file, which otherwise go soon
  /// after it is done. Does not throw for the request's failure.
  void wait(Request& request);
  /// Throws `invalid_state` in a child of the process that made the engine.
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
