// Handlers for fork(): locks that another thread holds are free in the child, and descriptors that
// signal that the parent is alive are closed there.
#pragma once

#include <mutex>

#include "anyaccel/export.h"

namespace anyaccel {

/// A mutex for short critical sections: do not wait, start programs or take other locks inside.
/// fork() acquires it first, so in the child it is free and the data that it guards is consistent.
/// Only for objects that live as long as the process.
class ANYACCEL_API ForkSafeMutex {
 public:
  ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Closes the descriptor in children at fork(). A process that waits for the end of a pipe, or for
/// a file lock, then waits only for this process. Returns false if the table is full; children then
/// inherit the descriptor. Thread-safe.
ANYACCEL_API bool close_in_children(int descriptor) noexcept;
/// Unregisters the descriptor. Call it before closing the descriptor in this process.
ANYACCEL_API void forget_in_children(int descriptor) noexcept;

}  // namespace anyaccel
