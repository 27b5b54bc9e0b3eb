// Ways to have blocks read and written by the system while the program goes on: io_uring, libaio's
// calls, threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anyaccel::ops::aio {

/// One read or write of a piece of a file. Its owner keeps it, and the memory, until the queue
/// gives it back.
struct Transfer {
  int file = -1;
  bool write = false;
  char* memory = nullptr;
  std::size_t bytes = 0;
  std::int64_t offset = 0;
  std::int64_t result = 0;  ///< set when done: bytes moved, or minus an errno
};

/// What the engine needs of the system, and what tests replace to inject failures. One thread uses
/// one queue.
class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;
  /// "io_uring", "libaio" or "threads".
  virtual const char* name() const noexcept = 0;
  /// Starts transfers in order and returns how many; fewer when the system has no room now. One
  /// that the system refuses counts as started and is given back with its error.
  virtual std::size_t submit(Transfer* const* transfers, std::size_t count) = 0;
  /// Waits until `least` transfers are done, or all that were started when those are fewer, and
  /// appends them.
  virtual void reap(std::size_t least, std::vector<Transfer*>& done) = 0;
};

/// Each throws `unavailable` with the system's reason where it cannot work; `depth` is how many may
/// be under way. An io_uring belongs to the thread that makes it.
std::unique_ptr<Queue> make_uring_queue(unsigned depth);
std::unique_ptr<Queue> make_libaio_queue(unsigned depth);
std::unique_ptr<Queue> make_thread_queue(unsigned depth);

/// A queue and why it is this one, for people.
struct Choice {
  std::unique_ptr<Queue> queue;
  std::string reason;
};

/// `wanted` is "", "auto", "io_uring", "libaio" or "threads". By default the first of these that
/// works here; a named one that does not is `unavailable`, another word `invalid_argument`.
Choice choose_queue(const std::string& wanted, unsigned depth);

}  // namespace anyaccel::ops::aio
