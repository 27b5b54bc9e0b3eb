// Queues that read and write blocks asynchronously: with io_uring, with the system calls that
// libaio wraps, or with blocking calls on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anyaccel::ops::aio {

/// A read or write of one block of a file. The owner keeps the object and the memory alive until
/// the queue returns the object.
struct Transfer {
  int file = -1;
  bool write = false;
  char* memory = nullptr;
  std::size_t bytes = 0;
  std::int64_t offset = 0;
  std::int64_t result = 0;  ///< set on completion: bytes transferred, or a negated errno
};

/// The engine's interface to the system. Tests replace it to inject failures. A single thread uses
/// each queue.
class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;
  /// "io_uring", "libaio" or "threads".
  virtual const char* name() const noexcept = 0;
  /// Starts transfers in order and returns how many were started: fewer than `count` if the system
  /// has no room now. A transfer that the system rejects counts as started; reap() returns it with
  /// its error.
  virtual std::size_t submit(Transfer* const* transfers, std::size_t count) = 0;
  /// Waits until at least `least` transfers are done, or all started ones if there are fewer, and
  /// appends the completed transfers to `done`.
  virtual void reap(std::size_t least, std::vector<Transfer*>& done) = 0;
};

/// Creates a queue with at most `depth` in-flight transfers. Throws `unavailable` with the system's
/// reason if this kind of queue does not work. Only the thread that creates an io_uring queue may
/// use it.
std::unique_ptr<Queue> make_uring_queue(unsigned depth);
std::unique_ptr<Queue> make_libaio_queue(unsigned depth);
std::unique_ptr<Queue> make_thread_queue(unsigned depth);

/// A queue, and a message that explains the choice.
struct Choice {
  std::unique_ptr<Queue> queue;
  std::string reason;
};

/// `wanted` is "", "auto", "io_uring", "libaio" or "threads". For "" and "auto", chooses the first
/// of io_uring, libaio and threads that works on this system. Throws `unavailable` if the named
/// queue does not work, and `invalid_argument` for any other name.
Choice choose_queue(const std::string& wanted, unsigned depth);

}  // namespace anyaccel::ops::aio
